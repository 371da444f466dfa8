# SPDX-License-Identifier: Apache-2.0

import argparse
import os

from osc_lib import exceptions
import pytest

from nova_prio.cmd import nova_api


@pytest.fixture(autouse=True)
def no_credentials(monkeypatch, tmp_path):
    for name in os.environ:
        if name.startswith('OS_'):
            monkeypatch.delenv(name)
    monkeypatch.setenv('HOME', str(tmp_path))
    monkeypatch.chdir(tmp_path)


def find_error(*arguments):
    parser = argparse.ArgumentParser()
    nova_api.add_cloud_option(parser)
    with pytest.raises(exceptions.CommandError) as error:
        nova_api.connect(parser.parse_args(arguments))
    return str(error.value)


def test_missing_credentials_are_reported_with_the_remedy():
    assert find_error() == (
        "No connection to Nova's API: Auth plugin requires parameters which "
        'were not given: auth_url. To give credentials, source the openrc '
        'file of an administrator, or give --os-cloud.')


def test_unknown_cloud_is_reported():
    assert 'API: Cloud none was not found. To' in find_error(
        '--os-cloud', 'none')


def test_missing_password_is_reported_with_the_remedy(monkeypatch):
    for name, value in (('AUTH_URL', 'http://127.0.0.1:1/v3'),
                        ('USERNAME', 'a'), ('PROJECT_NAME', 'c')):
        monkeypatch.setenv('OS_' + name, value)
    assert 'password is a required attribute. To give credentials' in (
        find_error())


def test_keystone_that_does_not_answer_is_reported(monkeypatch):
    for name, value in (('AUTH_URL', 'http://127.0.0.1:1/v3'),
                        ('USERNAME', 'a'), ('PASSWORD', 'b'),
                        ('PROJECT_NAME', 'c')):
        monkeypatch.setenv('OS_' + name, value)
    assert 'Unable to establish connection to http://127.0.0.1:1/v3' in (
        find_error())
