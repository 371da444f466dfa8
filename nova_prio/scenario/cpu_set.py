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

"""CPU sets as Nova's options write them; pure."""


def parse(text):
    """Return the frozenset of CPU numbers of a text such as "0-7,^3".

    The syntax is that of ``[compute] cpu_dedicated_set``.

    :raises ValueError: where a number or range is not one
    """
    included, excluded = set(), set()
    for part in text.split(','):
        part = part.strip()
        target = excluded if part.startswith('^') else included
        first, dash, last = part.lstrip('^').partition('-')
        first = int(first)
        last = int(last) if dash else first
        if last < first:
            raise ValueError('range %s ends before it starts' % part)
        target.update(range(first, last + 1))
    return frozenset(included - excluded)


def text(cpus):
    """Return CPU numbers as text such as "0-2,5"; "" for none."""
    ranges = []
    for cpu in sorted(cpus):
        if ranges and cpu == ranges[-1][1] + 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ','.join(str(first) if first == last else '%d-%d' % (first, last)
                    for first, last in ranges)
