# SPDX-License-Identifier: Apache-2.0

"""Scenarios: hosts, steps on these hosts, and the result.

* :mod:`nova_prio_scenario.document`: reads and checks a scenario file (pure)
* :mod:`nova_prio_scenario.checks`: items and steps that contradict (pure)
* :mod:`nova_prio_scenario.schema`: the rules of a file as JSON schema (pure)
* :mod:`nova_prio_scenario.verbs`: the steps of a scenario (pure)
* :mod:`nova_prio_scenario.cloud`: a stock Nova and Placement
* :mod:`nova_prio_scenario.fake_hosts`: what Nova's fake libvirt lacks
* :mod:`nova_prio_scenario.shared_sql`: the SQL that clouds share
* :mod:`nova_prio_scenario.host_options`: options for each host
* :mod:`nova_prio_scenario.stage`: sets up and reads hosts and servers
* :mod:`nova_prio_scenario.player`: takes the steps through Nova's API
* :mod:`nova_prio_scenario.waiting`: waits for the end of a step
* :mod:`nova_prio_scenario.refusals`: why no host takes a request
* :mod:`nova_prio_scenario.result`: the result as data (pure)
* :mod:`nova_prio_scenario.result_text`: the result as text (pure)
* :mod:`nova_prio_scenario.page`: the hosts after each step, for a page
"""
