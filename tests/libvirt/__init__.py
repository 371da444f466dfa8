# SPDX-License-Identifier: Apache-2.0

"""Behaviour on real libvirt and QEMU; these tests have to run as root."""
