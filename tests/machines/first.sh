#!/bin/sh
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

# The first process of a virtual machine. MANAGER is systemd or none; CGROUPS is
# v1 or v2; MACHINED is yes or no; PACKAGED is yes if the slices are installed, as
# by the Debian package, or no. PYTHON runs the script INSIDE.
set -eu
PATH=/usr/sbin:/usr/bin:/sbin:/bin
# The files may come from a container, but this is a virtual machine.
rm -f /.dockerenv
echo test >/proc/sys/kernel/hostname
# libvirt looks up its default users before it reads its configuration. They
# may be missing, because the package that makes them also starts libvirtd.
grep -q ^libvirt-qemu: /etc/passwd ||
    echo libvirt-qemu:x:64055:64055::/:/usr/sbin/nologin >>/etc/passwd
for group in libvirt-qemu:x:64055: kvm:x:64056:; do
    grep -q "^${group%%:*}:" /etc/group || echo "$group" >>/etc/group
done
rm -rf /etc/libvirt
mkdir /etc/libvirt
cat >/etc/libvirt/qemu.conf <<'END'
user = "root"
group = "root"
security_driver = "none"
stdio_handler = "file"
END

source=${INSIDE%/tests/*}
cd "$source"
"$PYTHON" -S -m nova_prio_host.bundle /usr/local/lib/nova-prio-host
cd -

if [ "$MANAGER" = systemd ]; then
    units=/etc/systemd/system
    rm -rf "$units"
    mkdir -p "$units/nova-prio-host.service.d"
    # Enable only the units of this test, and none of those in the files.
    cat >"$units/multi-user.target" <<END
[Unit]
DefaultDependencies=no
Wants=test.service
END
    cat >"$units/test.service" <<END
[Unit]
DefaultDependencies=no
Wants=dbus.service libvirtd.service
After=dbus.service nova-prio-host.service libvirtd.service
[Service]
ExecStart=$PYTHON -I -S $INSIDE
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS0
END
    # Instead of the unit of libvirt, which may not be installed.
    cat >"$units/libvirtd.service" <<END
[Unit]
After=dbus.service
[Service]
Type=notify
TimeoutStartSec=infinity
ExecStart=libvirtd
END
    # As in the administrator guide.
    cat >/usr/local/bin/nova-prio-host <<END
#!/bin/sh
exec $PYTHON -I -S /usr/local/lib/nova-prio-host "\$@"
END
    chmod +x /usr/local/bin/nova-prio-host
    cp "$source"/etc/systemd/nova-prio-host* /usr/lib/systemd/system
    # As debian/rules.
    if [ "$PACKAGED" = yes ]; then
        mkdir -p /tmp/image/etc/systemd/system
        /usr/local/bin/nova-prio-host prepare --root /tmp/image
        mv /tmp/image/etc/systemd/system/*.slice /usr/lib/systemd/system
    fi
    # That of node_exporter.
    mkdir -p /var/lib/prometheus/node-exporter
    cat >"$units/nova-prio-host.service.d/test.conf" <<END
[Service]
ExecStartPre=sh -c 'nova-prio-host check --json; echo \$\$? >/run/before'
StandardOutput=truncate:/run/prepared
StandardError=file:/run/errors
END
    SYSTEMD_OFFLINE=1 systemctl --quiet enable nova-prio-host.service
    for unit in systemd-udevd systemd-udev-trigger systemd-journald \
        systemd-timesyncd systemd-resolved systemd-networkd; do
        ln -s /dev/null "$units/$unit.service"
    done
    # libvirt accepts a missing unit, but takes a masked unit for an error.
    [ "$MACHINED" = yes ] || rm /lib/systemd/system/systemd-machined.service \
        /usr/share/dbus-1/system-services/org.freedesktop.machine1.service
    [ "$CGROUPS" = v2 ] || hierarchy='systemd.unified_cgroup_hierarchy=0
        systemd.legacy_systemd_cgroup_controller=1'
    export SYSTEMD_PROC_CMDLINE="${hierarchy:-}"
    exec /lib/systemd/systemd --unit=multi-user.target
fi

case $CGROUPS in
v2)
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
    ;;
v1)
    mount -t tmpfs -o mode=755 cgroups /sys/fs/cgroup
    for controllers in cpu,cpuacct cpuset memory devices freezer blkio; do
        mkdir "/sys/fs/cgroup/$controllers"
        mount -t cgroup -o "$controllers" cgroup \
            "/sys/fs/cgroup/$controllers"
    done
    ln -s cpu,cpuacct /sys/fs/cgroup/cpu
    ;;
esac
# The first process must wait for guests that have ended.
"$PYTHON" -I -S "$INSIDE" &
while :; do
    wait
done
