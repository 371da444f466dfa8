# SPDX-License-Identifier: Apache-2.0

import json
from urllib import parse

import hypothesis
from hypothesis import strategies
import pytest

from nova_prio.admin.support import masking

#: A text that occurs in no other text of these tests.
MARK = 'pla7nted'
NOTHING = masking.Masker([])

SECRETS = strategies.builds(
    lambda parts: MARK.join(['', *parts, '']),
    strategies.lists(strategies.text(
        strategies.characters(codec='utf-8', exclude_categories=['Cc', 'Zs'])
        | strategies.sampled_from('@%:/$\'" ,'), max_size=3),
        min_size=1, max_size=3))


@hypothesis.given(SECRETS)
def test_secret_of_an_option_is_masked_in_any_form(secret):
    masker = masking.Masker([secret])
    for form in (secret, repr(secret), json.dumps(secret),
                 parse.quote(secret, ''), parse.quote_plus(secret),
                 parse.unquote(secret), secret.replace('%', '%%')):
        assert MARK not in masker.mask_text('before %s after' % form)
        assert MARK not in str(masker.mask({'a': [form, {form: 1}]}))


@hypothesis.given(SECRETS)
def test_password_of_a_url_is_found_in_all_forms(secret):
    url = 'rabbit://user:%s@host:5672/,other:b@host/' % secret
    masker = masking.Masker(masking.find_passwords(url))
    assert MARK not in masker.mask_text('before %s after' % secret)
    assert MARK not in masker.mask_text(url)


@pytest.mark.parametrize('text, expected', [
    ('GET http://user:%s@host/x', 'GET http://***@host/x'),
    ('GET http://u:%s@a/ http://u:%s/x@b/', 'GET http://***@a/ http://***@b/'),
    ('clone https://%s@host', 'clone https://***@host'),
    ('cache user:%s@host:1', 'cache ***@host:1'),
    ("url='redis://:%s@h'", "url='redis://***@h'"),
    ('curl -H "X-Auth-Token: %s" x', 'curl -H "X-Auth-Token: ***'),
    ("{'X-Subject-Token': b'%s'}", "{'X-Subject-Token': ***"),
    ('Authorization: Basic %s', 'Authorization: ***'),
    ('token gAAAAAB%s-_x== is old', 'token *** is old'),
    ('bearer eyJ%s.eyJ0.a-_b', 'bearer ***'),
    ('adminPass="%s two"', 'adminPass=***'),
    ("{'admin_password': '%s it\\'s', 'x': 1}", "{'admin_password': ***"),
    ('--os-password %s', '--os-password ***'),
    ('secret_key => %s', 'secret_key => ***'),
    ('password2:\n  %s', 'password2:\n  ***'),
    ('<password>%s</password>', '<password>***</password>'),
    ('a -----BEGIN PRIVATE KEY-----\n%s\n-----END PRIVATE KEY----- b',
     'a *** b')])
def test_unknown_secret_is_masked_by_its_form(text, expected):
    assert NOTHING.mask_text(text.replace('%s', MARK)) == expected


@pytest.mark.parametrize('text', [
    '2026-11-26 07:49:04.123 7 INFO nova_prio.compute.usage [-] Host c1: ok.',
    'name@http://host:8774/v2.1/', 'http://host:80/a', 'qemu+tcp://host/x',
    '[pci] passthrough_whitelist = [{"vendor_id": "8086"}]',
    'Keystone: the keymap is en-us.', '0-7,16-23', 'aa:bb:cc:dd:ee:ff'])
def test_other_texts_are_kept(text):
    assert NOTHING.mask_text(text) == text


def test_value_with_the_name_of_a_secret_is_masked():
    assert NOTHING.mask({
        'db_password': MARK, 'Secret': [MARK], 'tokens': {'a': MARK},
        'key_pairs': 7, 'is_secret': False, 'cookie': None,
        'other': [{'apikey': MARK}, 1.5, ('a',)], 1: object}) == {
        'db_password': '***', 'Secret': '***', 'tokens': '***',
        'key_pairs': 7, 'is_secret': False, 'cookie': None,
        'other': [{'apikey': '***'}, 1.5, ['a']], '1': "<class 'object'>"}


def test_short_secret_does_not_mask_parts_of_words():
    assert masking.Masker(['nova', '']).mask_text('nova_prio') == 'nova_prio'
