# SPDX-License-Identifier: Apache-2.0

"""The support bundle: the files that a report of a bug needs.

``parts`` lists the files, ``bundle`` makes the archive, and ``masking`` masks
the secrets in each of them.
"""
