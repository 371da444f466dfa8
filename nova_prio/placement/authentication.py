# SPDX-License-Identifier: Apache-2.0

"""Make an error of keystoneauth one that the callers expect."""

from collections import abc
import contextlib

from keystoneauth1 import exceptions as client_exceptions


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
