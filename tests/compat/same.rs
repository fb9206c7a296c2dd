//! What both do alike: status, output, messages, and what is on the host afterwards.

use crate::support::need;
use crate::world::World;

/// One group of calls; each is compared.
fn same(calls: &[&str]) {
    if !need("userns") || !need("bubblewrap") {
        return;
    }
    let world = World::new();
    for call in calls {
        let theirs = world.theirs(call);
        let on_host = world.names();
        let ours = world.ours(call);
        let plain = |text: &str| text.replace(&theirs_name(), "BWRAP").replace(&ours_name(&world), "BWRAP");
        let told = format!("{call}\n{}\n{}", theirs.describe(), ours.describe());
        assert_eq!(theirs.code, ours.code, "status of {told}");
        assert_eq!(plain(&theirs.out), plain(&ours.out), "output of {told}");
        assert_eq!(plain(&theirs.err), plain(&ours.err), "messages of {told}");
        assert_eq!(on_host, world.names(), "host after {told}");
    }
}

fn theirs_name() -> String {
    crate::support::original().unwrap().display().to_string()
}

fn ours_name(world: &World) -> String {
    world.sandbox.beside("bwrap").display().to_string()
}

#[test]
fn command_lines() {
    same(&[
        "$B --version",
        "$B --version --foo",
        "$B --foo",
        "$B --level-prefix --foo",
        "$B --bind /",
        "$B --setenv A",
        "$B --info-fd x true",
        "$B --uid x true",
        "$B --cap-add FOO true",
        "$B --perms 9 true",
        "$B --perms 755 --proc /proc true",
        "$B --perms 7 --perms 7 --dir /x true",
        "$B --size 0 true",
        "$B --size 5 --dir /x true",
        "$B --overlay-src / true",
        "$B --ro-overlay /x true",
        "$B --tmp-overlay /x true",
        "$B --overlay a b",
        "$B --argv0 a --argv0 b true",
        "$B --seccomp 3 --add-seccomp-fd 4 true",
        "$B $R --unshare-uts --hostname a --hostname b true",
        "$B $R --disable-userns true",
        "$B $R --hostname x true",
        "$B $R --as-pid-1 true",
        "$B --args 77 true",
        "$B $R -- --foo",
        "$B --exec-label x true",
        "printf '%s\\0' --ro-bind / / --setenv A 1 | $B --args 0 sh -c 'echo $A'",
    ]);
}

#[test]
fn commands_and_their_status() {
    same(&[
        "$B $R true",
        "$B $R sh -c 'exit 7'",
        "$B $R sh -c 'kill -9 $$'",
        "$B $R --unshare-pid sh -c 'exit 7'",
        "$B $R --unshare-pid sh -c 'kill -15 $$'",
        "$B $R --unshare-pid --as-pid-1 sh -c 'echo $$; exit 3'",
        "$B $R --unshare-pid sh -c 'echo $$'",
        "$B $R nonexistent-command",
        "$B $R --unshare-pid nonexistent-command",
        "$B $R /etc",
        "$B $R --argv0 name sh -c 'echo $0' | cat",
        "$B $R --argv0 name cat /proc/self/cmdline | tr '\\0' ' '",
        "echo in | $B $R cat",
        "$B $R sh -c 'sleep 0.2 & exit 4'",
        "$B $R --die-with-parent --new-session sh -c 'ps -o sid= -p $$ | tr -d \" \" | grep -qx $$; echo $?'",
    ]);
}

#[test]
fn environment_and_directory() {
    same(&[
        "A=1 $B $R --setenv B 2 --unsetenv A env | sort | grep -v ^_",
        "A=1 $B $R --clearenv --setenv C 3 /usr/bin/env | sort",
        "$B $R --setenv PATH /nowhere true",
        "$B $R --setenv A 1 --clearenv --setenv B 2 /usr/bin/env | sort",
        "$B $R pwd",
        "$B $R --chdir /usr sh -c 'pwd; echo $PWD'",
        "$B $R --chdir /nonexistent true",
        "$B --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64 sh -c 'pwd'",
        "$B $R --chdir / --chdir /usr pwd",
    ]);
}

#[test]
fn binds() {
    same(&[
        "$B $R --bind $W $W sh -c 'echo x > new; cat new'; cat new",
        "$B $R --bind d /mnt sh -c 'ls /mnt; echo x > /mnt/new'",
        "$B $R --ro-bind d /mnt sh -c 'ls /mnt; echo x > /mnt/new'",
        "$B $R --ro-bind-try /nonexistent /mnt ls /mnt",
        "$B $R --bind-try /nonexistent /nonexistent2 true",
        "$B $R --bind /nonexistent /mnt true",
        "$B $R --dev-bind /dev /dev sh -c 'echo x > /dev/null && ls /dev/zero'",
        "$B $R --bind /dev /mnt sh -c 'echo x > /mnt/null'",
        "$B $R --bind l /mnt ls /mnt",
        "$B $R --bind g /mnt true",
        "$B $R --bind d /etc/passwd true",
        "$B $R --tmpfs /mnt --bind d /mnt/a/b --bind g /mnt/c sh -c 'find /mnt -printf \"%p %m\\n\" | sort'",
        "$B $R --tmpfs /mnt --proc /mnt/a/p --symlink x /mnt/b/l --tmpfs /mnt/c/t --ro-bind-data 3 /mnt/d/f sh -c 'stat -c \"%n %a\" /mnt/[a-d]' 3<g",
        "$B $R --bind-fd 3 /mnt ls /mnt 3<d",
        "$B $R --ro-bind-fd 3 /mnt sh -c 'ls /mnt; touch /mnt/x' 3<d",
        "$B $R --tmpfs /mnt --symlink a /mnt/l --dir /mnt/a --bind d /mnt/l/x find /mnt -mindepth 1 -maxdepth 2",
        "$B $R --bind $W $W --remount-ro $W touch x",
        "$B $R --remount-ro /etc true",
        "$B $R --remount-ro /nonexistent true",
        "$B $R --bind / / sh -c 'touch $0/x' $W; ls x",
        "$B $R --ro-bind d $W sh -c 'ls; cd $0; ls' $W",
    ]);
}

#[test]
fn file_systems() {
    same(&[
        "$B $R --tmpfs /mnt sh -c 'stat -c %a /mnt; touch /mnt/x; ls /mnt'",
        "$B $R --perms 0700 --tmpfs /mnt stat -c %a /mnt",
        "$B $R --size 1048576 --tmpfs /mnt sh -c 'df --output=size -B1 /mnt'",
        "$B $R --tmpfs /mnt --remount-ro /mnt touch /mnt/x",
        "$B $R --proc /proc sh -c 'test -e /proc/self/status; echo $?'",
        "$B $R --unshare-pid --proc /proc sh -c 'ls -d /proc/1 /proc/2; cat /proc/2/comm'",
        "$B $R --dev /dev sh -c 'ls -l /dev | sed \"s/.* //;1d\" | sort; stat -c %a /dev /dev/shm'",
        "$B $R --dev /dev sh -c 'echo x > /dev/null; head -c 3 /dev/zero | od -An -c; ls /dev/pts'",
        "$B $R --unshare-ipc --tmpfs /mnt --mqueue /mnt/q ls -ld /mnt/q | cut -c1-10",
        "$B $R --tmpfs /nonexistent true",
        "$B $R --proc /etc/passwd true",
        "$B $R --tmpfs /etc/passwd true",
        "$B $R --dir /etc/passwd true",
        "$B $R --dir /nonexistent/x true",
    ]);
}

#[test]
fn things_made_in_ours() {
    same(&[
        "$B $R --tmpfs /mnt --dir /mnt/a --perms 0711 --dir /mnt/b sh -c 'stat -c \"%n %a\" /mnt/*'",
        "$B $R --tmpfs /mnt --perms 0700 --dir /mnt/x/y sh -c 'stat -c \"%n %a\" /mnt/x /mnt/x/y'",
        "$B $R --tmpfs /mnt --file 3 /mnt/f sh -c 'cat /mnt/f; stat -c %a /mnt/f' 3<g",
        "$B $R --tmpfs /mnt --perms 0600 --file 3 /mnt/f stat -c %a /mnt/f 3<g",
        "$B $R --tmpfs /mnt --bind-data 3 /mnt/f sh -c 'cat /mnt/f; stat -c %a /mnt/f; echo z > /mnt/f; cat /mnt/f' 3<g",
        "$B $R --tmpfs /mnt --ro-bind-data 3 /mnt/f sh -c 'cat /mnt/f; echo z > /mnt/f' 3<g",
        "$B $R --ro-bind-data 3 /etc/hostname cat /etc/hostname 3<g",
        "$B $R --tmpfs /mnt --symlink target /mnt/l --symlink target /mnt/l readlink /mnt/l",
        "$B $R --tmpfs /mnt --symlink a /mnt/l --symlink b /mnt/l true",
        "$B $R --symlink x /etc true",
        "$B $R --symlink x /nonexistent/l true",
        "$B $R --tmpfs /mnt --dir /mnt/a --chmod 0700 /mnt/a stat -c %a /mnt/a",
        "$B $R --chmod 755 /etc true",
        "$B $R --file 3 /nonexistent true 3<g",
        "$B --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64 \
         sh -c 'cd /; ls; touch x; ls x'",
    ]);
}

#[test]
fn overlays() {
    same(&[
        "$B $R --overlay-src d --overlay-src e --ro-overlay /mnt sh -c 'ls /mnt; touch /mnt/x'",
        "$B $R --overlay-src d --tmp-overlay /mnt sh -c 'echo x > /mnt/f; cat /mnt/f; ls /mnt'; cat d/f",
        "mkdir up work; $B $R --overlay-src d --overlay up work /mnt sh -c 'echo x > /mnt/f'; cat d/f up/f; rm -rf work",
        "echo e > e/f; $B $R --overlay-src d --overlay-src e --tmp-overlay /mnt cat /mnt/f",
        "$B $R --overlay-src /nonexistent --tmp-overlay /mnt true",
    ]);
}

#[test]
fn namespaces() {
    same(&[
        "$B $R --unshare-user --uid 5 --gid 6 id -u",
        "$B $R --unshare-user --uid 5 --gid 6 id -g",
        "$B $R --unshare-uts --hostname box uname -n",
        "$B $R --unshare-net sh -c 'grep -c : /proc/net/dev; ping -c1 -w1 127.0.0.1 >/dev/null 2>&1; true'",
        "$B $R --unshare-all --share-net true",
        "$B $R --unshare-user --disable-userns unshare -U true 2>/dev/null; echo $?",
        "$B $R --unshare-user --disable-userns --assert-userns-disabled true",
        "$B $R --unshare-user --assert-userns-disabled true",
        "$B $R --unshare-user --cap-drop ALL sh -c 'grep CapEff /proc/self/status'",
        "$B $R --unshare-user --cap-drop ALL --cap-add CAP_SETFCAP sh -c 'grep Cap[EPB] /proc/self/status'",
        "$B $R --unshare-user --cap-drop ALL --cap-drop CAP_KILL grep CapEff /proc/self/status",
        "$B $R grep NoNewPrivs /proc/self/status",
        "for ns in ipc pid net uts cgroup; do $B $R --unshare-$ns sh -c 'readlink /proc/self/ns/'$ns >a; \
         readlink /proc/self/ns/$ns >b; cmp -s a b; echo $ns $?; done; rm a b",
    ]);
}

#[test]
fn descriptors() {
    same(&[
        "$B $R --json-status-fd 3 --unshare-pid sh -c 'exit 3' 3>s; sed 's/[0-9][0-9]*/N/g' s; rm s",
        "$B $R --json-status-fd 3 nonexistent 3>s; sed 's/[0-9][0-9]*/N/g' s; rm s",
        "$B $R --info-fd 3 --unshare-all true 3>s; sed 's/[0-9][0-9]*/N/g' s; rm s",
        "$B $R --info-fd 3 true 3>s; sed 's/[0-9][0-9]*/N/g' s; rm s",
        "$B $R sh -c 'cat <&5' 5<g",
        "(sleep 0.3; echo x) | $B $R --block-fd 0 echo done",
        "$B $R --seccomp 3 true 3<g",
        "$B $R --seccomp 3 true 3</dev/null",
        "printf '\\6\\0\\0\\0\\0\\0\\377\\177' > ok; $B $R --seccomp 3 grep Seccomp: /proc/self/status 3<ok; rm ok",
        "printf '\\6\\0\\0\\0\\0\\0\\377\\177' > ok; $B $R --add-seccomp-fd 3 --add-seccomp-fd 4 \
         grep Seccomp_filters /proc/self/status 3<ok 4<ok; rm ok",
        "$B $R --lock-file $W/g true",
        "$B $R --lock-file /nonexistent true",
        "$B $R --unshare-pid --as-pid-1 --lock-file $W/g true",
        "$B $R --sync-fd 3 sh -c 'cat <&3' 3<g 2>&1 | head -c 12",
    ]);
}

/// Namespaces of a process that sleeps, open as 3 (users), 4 (pids) and 6 (users below).
const OTHERS: &str = "unshare -Urpf --mount-proc unshare -Ur sleep 60 >/dev/null 2>&1 & O=$!
    while test ! -e /proc/$O/ns/user -o $(readlink /proc/$O/ns/user) = $(readlink /proc/self/ns/user); do sleep 0.02; done
    until grep -q '^ *0 .* 1$' /proc/$O/uid_map && C=$(cat /proc/$O/task/$O/children) && test -n \"$C\"; do sleep 0.02; done
    until test \"$(cat /proc/${C% }/comm)\" = sleep; do sleep 0.02; done
    exec 3</proc/$O/ns/user 4</proc/${C% }/ns/pid 6</proc/${C% }/ns/user";

#[test]
fn namespaces_of_others() {
    let calls = [
        "$B $R --userns 3 sh -c 'id -u; id -g; cat /proc/self/uid_map; grep CapEff /proc/self/status'",
        "$B $R --userns 3 --unshare-pid --proc /proc sh -c 'echo $$; id -u'; readlink /proc/self/ns/user | wc -l",
        "$B $R --userns 3 --cap-drop ALL --uid 5 id -u",
        "$B $R --userns 3 --json-status-fd 5 sh -c 'exit 4' 5>s; sed 's/[0-9][0-9]*/N/g' s; rm s",
        "$B $R --userns 3 --pidns 4 --proc /proc sh -c 'cat /proc/1/comm; exit 3'",
        "$B $R --userns 3 --pidns 4 --unshare-pid --proc /proc sh -c 'echo $$; exit 3'",
        "$B $R --userns 3 --pidns 4 --unshare-pid --info-fd 5 true 5>s; sed 's/[0-9][0-9]*/N/g' s; rm s",
        "$B $R --unshare-pid --userns 3 --json-status-fd 5 sh -c 'kill -9 $$' 5>s; sed 's/[0-9][0-9]*/N/g' s; rm s",
        "N=$(readlink /proc/self/fd/6) $B $R --userns 3 --userns2 6 --cap-drop ALL sh -c 'test $(readlink /proc/self/ns/user) = $N && grep CapEff /proc/self/status'",
        "$B $R --userns 3 --unshare-user true",
        "$B $R --userns 3 --unshare-all true",
        "$B $R --userns 4 true",
        "$B $R --userns x true",
    ];
    let calls = calls.map(|call| format!("{OTHERS}; {call}; S=$?; kill -9 $C; exit $S"));
    same(&calls.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn user_maps_of_others() {
    same(&[
        "$B $R --userns-block-fd 3 true",
        "$B $R --unshare-user --userns-block-fd 3 true",
        "$B $R --unshare-user --userns-block-fd 3 --info-fd 4 --disable-userns true",
        "mkfifo b i; $B $R --unshare-user --userns-block-fd 3 --info-fd 4 sh -c 'cat /proc/self/uid_map; id -u' 3<>b 4>i &
            C=$(sed -n 's/.*child-pid.: \\([0-9]*\\).*/\\1/p' i); echo deny > /proc/$C/setgroups
            echo \"5 $(id -u) 1\" > /proc/$C/uid_map; echo \"5 $(id -g) 1\" > /proc/$C/gid_map; echo > b; wait $!; S=$?; rm b i; exit $S",
    ]);
}
