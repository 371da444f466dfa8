# SPDX-License-Identifier: Apache-2.0

"""Scenarios: hosts, steps on these hosts, and the result.

* :mod:`nova_prio.scenario.document`: reads and checks a scenario file (pure)
* :mod:`nova_prio.scenario.schema`: the rules of a file as JSON schema (pure)
* :mod:`nova_prio.scenario.verbs`: the steps of a scenario (pure)
* :mod:`nova_prio.scenario.cloud`: a stock Nova and Placement
* :mod:`nova_prio.scenario.host_options`: options for each host
* :mod:`nova_prio.scenario.stage`: sets up and reads hosts and servers
* :mod:`nova_prio.scenario.player`: takes the steps through Nova's API
* :mod:`nova_prio.scenario.refusals`: why no host takes a request
* :mod:`nova_prio.scenario.result`: the result as data (pure)
* :mod:`nova_prio.scenario.render`: the result as text (pure)
"""
