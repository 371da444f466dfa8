# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""The databases that nova.conf names, and what nova-prio-status reads."""

from nova import context
from nova import objects
from nova import rpc
from oslo_utils import importutils

from nova_prio import survey


class Unreadable(Exception):
    """The databases cannot be read, said in one sentence."""


def read(conf):
    """Return the host aggregates and the hosts of a cloud.

    :param conf: Nova's ``oslo_config.cfg.ConfigOpts``
    :returns: (list of nova.objects.Aggregate, list of survey.Host, list of
        str, UUIDs of the cells that do not answer)
    :raises Unreadable: where no answer comes from the API database
    """
    objects.register_all()
    admin = context.get_admin_context()
    try:
        connect(conf)
        return (list(objects.AggregateList.get_all(admin)),
                *survey.hosts(admin))
    except survey.DATABASE_ERRORS as error:
        raise Unreadable(
            'The database of [api_database] connection cannot be read: %s; '
            'correct the option, or the database.'
            % str(error).splitlines()[0].rstrip('.')) from error


def connect(conf):
    """Let Nova's objects read the databases, as nova-status does.

    :param conf: Nova's ``oslo_config.cfg.ConfigOpts``, with its files read
    """
    from nova.db.api import api
    from nova.db.main import api as main_api

    # Registers what cells may take from the options.
    rpc.init(conf)
    # Nova looks at its options where it is installed.
    profiler = importutils.try_import('osprofiler.opts')
    if profiler:
        profiler.set_defaults(conf)
    for group, database in (('database', main_api), ('api_database', api)):
        # Services wait for a database that starts later; a check need not.
        conf.set_override('max_retries', 0, group=group)
        database.configure(conf)
