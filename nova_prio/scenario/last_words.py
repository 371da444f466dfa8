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

"""What a service of this package says when it refuses to start."""

import contextlib
import logging


class _LastWords(logging.Handler):
    """Keeps the last critical message; ``text`` is None before."""

    text = None

    def emit(self, record):
        self.text = record.getMessage()


@contextlib.contextmanager
def listening():
    """Listen to the critical messages of this package; yields a handler."""
    handler = _LastWords(logging.CRITICAL)
    logger = logging.getLogger('nova_prio')
    logger.addHandler(handler)
    try:
        yield handler
    finally:
        logger.removeHandler(handler)
