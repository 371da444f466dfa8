# SPDX-License-Identifier: Apache-2.0

"""Tests on real libvirt and QEMU. Run them as root."""
