# SPDX-License-Identifier: Apache-2.0

"""Settings of the tests with drawn values."""

import hypothesis

# A test must not fail because the machine is busy.
hypothesis.settings.register_profile(
    'busy', deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile('busy')
