# SPDX-License-Identifier: Apache-2.0

"""Read the pages that ``--html`` writes."""

import json

from lxml import html
from nova.virt import hardware


def read_data(text):
    """Return the embedded data of a page."""
    element, = html.document_fromstring(text).xpath('//*[@id="data"]')
    return json.loads(element.text)


class Host:
    """A host of a page, or of one of its steps."""

    def __init__(self, element):
        self.name = element.get('data-host')
        self._element = element

    @property
    def text(self):
        """The text of the host, with single spaces."""
        return ' '.join(self._element.text_content().split())

    def get_map(self, lane):
        """Return dict, CPU -> text of the map, of a lane."""
        return {cpu: box.xpath('string(text)')
                for box in self._element.xpath('.//*[@data-lane="%s"]' % lane)
                for cpu in range(int(box.get('data-first')),
                                 int(box.get('data-first')) +
                                 int(box.get('data-width')))}

    def get_servers(self):
        """Return name of a server -> (row, pinned CPUs, CPUs it floats on)."""
        return {row.get('data-server'): (
            row[2].text, *(parse_cpus(cell.text) for cell in row[4:6]))
            for row in self._element.xpath('.//tr[@data-server]')}

    def get_cpus(self):
        """Return the lines of the table of CPUs, lists of str."""
        return [[' '.join(cell.text_content().split()) for cell in row]
                for row in self._element.xpath(
                    './/table[contains(@class, "cpus")]/tbody/tr')]

    def get_rows(self):
        """Return name of a row -> text, such as "4 left 4 of 8 sold"."""
        return {row.xpath('string(*[@class="row-name"])'):
                ' '.join(row.text_content().split()[1:])
                for row in self._element.xpath(
                    'summary//*[contains(@class, "row ")]')}


def read_hosts(text, step=0):
    """Return name of a host -> Host, of one step of a page."""
    document = html.document_fromstring(text)
    section, = document.xpath('//*[@id="step-%d"]' % step)
    return {element.get('data-host'): Host(element)
            for element in section.xpath('.//details[@data-host]')}


def read_refusals(text, step):
    """Return the refusals of a step, each as a list of lines."""
    document = html.document_fromstring(text)
    return [[' '.join(line.text_content().split())
             for line in refusal.xpath('.//p | .//li')]
            for refusal in document.xpath(
                '//*[@id="step-%d"]//*[@class="refusal"]' % step)]


def parse_cpus(text):
    """Return the CPUs of a cell of a table of servers, a set."""
    return set() if text == '–' else hardware.parse_cpu_spec(text)
