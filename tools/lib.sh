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

# Virtual environments of the tools beside this file; sourced, never run.
# All messages go to standard error: standard output is the tool's result.

say() {
    printf '%s\n' "$*" >&2
}

die() {
    say "$@"
    exit 1
}

# Print the path of the first Python that is 3.11 or later.
find_python() {
    for python in python3.11 python3 python3.12 python3.13; do
        if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
            2>/dev/null; then
            command -v "$python"
            return
        fi
    done
    die 'No Python 3.11 or later was found: install python3 first.'
}

# quietly LOG COMMAND...: write the output to LOG; show its end on failure.
quietly() {
    quietly_log=$1
    shift
    if ! "$@" >>"$quietly_log" 2>&1 </dev/null; then
        say "This failed: $*"
        say "The end of $quietly_log:"
        tail -n 30 "$quietly_log" >&2
        exit 1
    fi
}

# Debian ships the module venv in a separate package: install the package if
# the module is missing.
need_venv_module() {
    "$1" -c 'import ensurepip, venv' 2>/dev/null && return
    version=$("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    command -v apt-get >/dev/null ||
        die "$1 cannot make virtual environments: install its venv module."
    [ "$(id -u)" = 0 ] ||
        die "$1 cannot make virtual environments: as root, run" \
            "apt-get install python$version-venv."
    say "Installing python$version-venv ..."
    quietly "$2" apt-get update
    quietly "$2" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y --no-install-recommends "python$version-venv"
}

# make_venv DIRECTORY ARGUMENTS...: make a virtual environment and run pip
# install with these arguments. It is made again if they or the files in
# STAMP_FILES changed.
make_venv() {
    venv=$1
    shift
    stamp=$({ printf '%s\n' "$PWD" "$@"; cat $STAMP_FILES; } | sha256sum)
    [ "$(cat "$venv/stamp" 2>/dev/null)" = "$stamp" ] && return
    log=$venv.log
    : >"$log"
    python=$(find_python) || exit 1
    need_venv_module "$python" "$log"
    say "Setting up $venv (once, about a minute; progress in $log) ..."
    rm -rf "$venv"
    quietly "$log" "$python" -m venv "$venv"
    quietly "$log" "$venv/bin/python" -m pip install \
        --disable-pip-version-check "$@"
    printf '%s\n' "$stamp" >"$venv/stamp"
}

# need_packages LOG PROFILE: install the missing packages of bindep.txt that
# have this profile or none. This does not configure or start any.
need_packages() {
    log=$1
    set -- $(sed -nE "s/ \\[platform:dpkg( $2)?\\]//p" bindep.txt)
    # Two environments may need them at the same time.
    exec 9>.venv-apt.lock
    flock 9
    missing=
    for package; do
        dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null |
            grep -qx installed || missing="$missing $package"
    done
    [ -n "$missing" ] || return 0
    [ "$(id -u)" = 0 ] ||
        die "These packages are missing: as root, run apt-get install$missing."
    : >"$log"
    say "Installing$missing (once; progress in $log) ..."
    quietly "$log" apt-get update
    # Configuration files that were changed on this machine stay unchanged.
    quietly "$log" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y --no-install-recommends \
        -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold \
        $missing
}

# copy_checkout DIRECTORY: copy the tracked and the new files of the checkout,
# and its history, from which pbr takes the version. Leftovers of an earlier
# build are not copied, and concurrent builds do not collide. The copy is a
# repository of its own: a commit or a tag there changes nothing here.
copy_checkout() {
    [ "$(git rev-parse --is-shallow-repository)" = false ] ||
        echo 'This clone is shallow, so the build gets a wrong version:' \
            'run git fetch --unshallow --tags first.' >&2
    git clone --quiet --no-checkout --no-hardlinks . "$1"
    git ls-files --cached --others --exclude-standard |
        tar --create --files-from=- --ignore-failed-read | tar -x -C "$1"
    git -C "$1" add --all
}
