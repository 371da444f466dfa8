# SPDX-License-Identifier: Apache-2.0

"""The steps that set up a host: what is wrong, and how to correct it.

:mod:`nova_prio_host.hierarchies` explains the terms of cgroups.
"""

import typing

# {command} is nova-prio-host with the options of this call.
PREPARE = 'run "{command}" as root'


class Step(typing.NamedTuple):
    """One setting that the host must have.

    ``problem`` names the current and the expected value; None if they match.
    ``remedy`` tells the user what to do. ``apply`` is a function without
    parameters that makes the setting; None if this command cannot. ``message``
    is the line to print after ``apply``.
    """

    # The zip archive must run on Python 3.8.
    problem: typing.Optional[str]
    remedy: str = PREPARE
    apply: typing.Optional[typing.Callable] = None
    message: str = ''


class SystemdSlice(typing.NamedTuple):
    """How to set a value in the directory of a slice.

    systemd sets these values from the unit file of the slice, and may undo
    what others write there. ``reload`` is a function without parameters that
    makes systemd read the unit file again. ``remedy`` tells the user what to
    do if a value is wrong.
    """

    reload: typing.Callable
    remedy: str


def read_file(path):
    """Return the stripped text of a file, or None if it does not exist."""
    return path.read_text().strip() if path.exists() else None


def find_directory_problem(path):
    """Return a sentence if the directory is missing, otherwise None."""
    if path.is_dir():
        return None
    return '%s is missing, but guests of this priority need it' % path


def make_directory_step(path):
    """Return the Step that makes a directory."""
    return Step(problem=find_directory_problem(path),
                apply=lambda: path.mkdir(exist_ok=True),
                message='made %s' % path)


def make_value_step(path, expected, systemd_slice=None, accepted=()):
    """Return the Step that sets the value of a file of a cgroup.

    :param path: pathlib.Path of the file
    :param expected: text of the value
    :param systemd_slice: SystemdSlice to which the cgroup belongs; None if
        this command writes the value itself
    :param accepted: tuple of the texts of other values that are no problem
    """
    text = read_file(path)
    if text is None:
        return Step(
            problem='%s is missing, but %s is expected' % (path, expected),
            remedy='use a kernel that has it, or leave out the option that '
            'asks for it')
    # The text may begin with "default", and one line per device may follow.
    value = text.split('\n')[0].split('default ')[-1]
    problem = None
    if value != expected and value not in accepted:
        problem = '%s is %s, but %s is expected' % (
            path, value or 'empty', expected)
    if systemd_slice is not None:
        return Step(
            problem=problem, remedy=systemd_slice.remedy,
            apply=systemd_slice.reload,
            message='had systemd set %s to %s' % (path, expected))
    return Step(problem=problem, apply=lambda: path.write_text(expected),
                message='set %s to %s' % (path, expected))


def make_controller_step(control, controller):
    """Return the Step that enables a controller in the children of a cgroup.

    :param control: pathlib.Path of cgroup.subtree_control in the cgroup
    """
    problem = None
    if controller not in read_file(control).split():
        problem = '%s is without %s' % (control, controller)
    return Step(problem=problem,
                apply=lambda: control.write_text('+' + controller),
                message='enabled %s in %s' % (controller, control))
