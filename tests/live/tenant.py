# SPDX-License-Identifier: Apache-2.0


"""A project, and users of it with Keystone's roles."""

import contextlib

from tests.live import catalog

PASSWORD = 'not that secret'
#: Those that Keystone makes when it is set up, without the administrator.
ROLES = ('reader', 'member', 'manager')
#: Where a request that creates a server may have its scheduler hints.
BLOCKS = ('os:scheduler_hints', 'OS-SCH-HNT:scheduler_hints')


@contextlib.contextmanager
def tenant(layout):
    """Make a project and a user for each role, for a while.

    :param layout: Layout
    :returns: dict, role -> connection of the user with it
    """
    admin = catalog.connect(layout)
    identity = admin.identity
    project = identity.create_project(name='tenant', domain_id='default')
    users = []
    for role in ROLES:
        user = identity.create_user(
            name='tenant-' + role, password=PASSWORD, domain_id='default')
        identity.assign_project_role_to_user(
            project, user, identity.find_role(role))
        users.append(user)
    yield {role: catalog.connect(
        layout, username=user.name, password=PASSWORD,
        project_name=project.name) for role, user in zip(ROLES, users)}
    for user in users:
        identity.delete_user(user)
    identity.delete_project(project)
