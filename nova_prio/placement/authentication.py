# SPDX-License-Identifier: Apache-2.0

"""Make clients; a missing password is an error that the callers expect."""

from __future__ import annotations

from collections import abc
import contextlib
import typing

from keystoneauth1 import exceptions as client_exceptions

if typing.TYPE_CHECKING:
    from nova.scheduler.client import report


@contextlib.contextmanager
def report_missing_password() -> abc.Iterator[None]:
    """Raise OptionError if a client is made without a password.

    Without a password, keystoneauth raises a plain Exception, which no caller
    can tell from other errors.

    :raises keystoneauth1.exceptions.OptionError: if the password is missing
    """
    try:
        yield
    except Exception as error:
        if not str(error).endswith('is a required attribute'):
            raise
        raise client_exceptions.OptionError(str(error)) from error


def make_placement_client() -> report.SchedulerReportClient:
    """Return Nova's client of Placement.

    In some releases of Nova, the client asks Placement when it is made.

    :raises keystoneauth1.exceptions.ClientException: if a password is missing,
        or Placement or keystone does not answer
    """
    # This import takes a second.
    from nova.scheduler.client import report as report_client
    with report_missing_password():
        return report_client.SchedulerReportClient()
