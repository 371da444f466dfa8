# SPDX-License-Identifier: Apache-2.0


"""A project, and its users with the roles of Keystone."""

import contextlib

from tests.live import catalog

PASSWORD = 'not that secret'
#: The roles that Keystone creates at its setup, except admin.
ROLES = ('reader', 'member', 'manager')
#: The keys for scheduler hints in a request that creates a server.
BLOCKS = ('os:scheduler_hints', 'OS-SCH-HNT:scheduler_hints')


@contextlib.contextmanager
def tenant(layout):
    """Create a project and a user for each role during the context.

    :param layout: Layout
    :returns: dict, role -> connection of the user with this role
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
