//! The help, and the version that clients ask for.

use std::fmt::Write;

/// The bubblewrap whose options are taken.
pub const VERSION: &str = "bubblewrap 0.11.0";

/// The help of a program that was called by this name.
#[must_use]
pub fn help(name: &str) -> String {
    let mut text = format!("usage: {name} [OPTIONS...] [--] COMMAND [ARGS...]\n\n");
    for (option, meaning) in OPTIONS {
        let _ = writeln!(text, "    {option:<28} {meaning}");
    }
    text.push_str(
        "\nThis is stockade in the place of bubblewrap: what bubblewrap would make on the host to deny a name is\n",
    );
    text.push_str("not made, and the name is denied all the same. $BWRAP_STOCKADE_LOG names a file to tell of it.");
    text
}

/// Options that are known and refused are in the list too: clients look for some of them.
const OPTIONS: [(&str, &str); 64] = [
    ("--help", "Show this help"),
    ("--version", "Show the version"),
    ("--args FD", "Take further options from FD, each ended by a NUL"),
    ("--argv0 VALUE", "Call the command by this name"),
    ("--level-prefix", "Begin messages with the priority of a log, e.g. <3>"),
    ("--unshare-all", "A new namespace of each kind"),
    ("--share-net", "But the caller's network"),
    ("--unshare-user", "A new user namespace (there always is one)"),
    ("--unshare-user-try", "The same"),
    ("--unshare-ipc", "A new IPC namespace"),
    ("--unshare-pid", "A new pid namespace"),
    ("--unshare-net", "A new network namespace with nothing but loopback"),
    ("--unshare-uts", "A new UTS namespace"),
    ("--unshare-cgroup", "A new cgroup namespace"),
    ("--unshare-cgroup-try", "A new cgroup namespace, if that can be"),
    ("--userns FD", "The user namespace in FD (where no name is guarded)"),
    ("--userns2 FD", "The same, once everything is set up"),
    ("--disable-userns", "No further user namespaces inside"),
    ("--assert-userns-disabled", "Fail where further user namespaces could be made"),
    ("--pidns FD", "The pid namespace in FD, or below it (where no name is guarded)"),
    ("--uid UID", "The caller's user is UID inside"),
    ("--gid GID", "The caller's group is GID inside"),
    ("--hostname NAME", "The name of the host inside (with --unshare-uts)"),
    ("--chdir DIR", "Start in DIR"),
    ("--clearenv", "Unset all environment variables"),
    ("--setenv VAR VALUE", "Set a variable"),
    ("--unsetenv VAR", "Unset a variable"),
    ("--lock-file DEST", "Hold a read lock on DEST"),
    ("--sync-fd FD", "Keep FD open as long as the sandbox lives"),
    ("--bind SRC DEST", "Show the host's SRC at DEST, writable"),
    ("--bind-try SRC DEST", "The same, unless there is no SRC"),
    ("--dev-bind SRC DEST", "The same, with device nodes that work"),
    ("--dev-bind-try SRC DEST", "The same, unless there is no SRC"),
    ("--ro-bind SRC DEST", "Show the host's SRC at DEST, read-only"),
    ("--ro-bind-try SRC DEST", "The same, unless there is no SRC"),
    ("--bind-fd FD DEST", "Show what FD is open on"),
    ("--ro-bind-fd FD DEST", "The same, read-only"),
    ("--remount-ro DEST", "Make the mount at DEST read-only, but none below"),
    ("--overlay-src SRC", "A layer of the next overlay"),
    ("--overlay RWSRC WORKDIR DEST", "An overlay that is written to RWSRC"),
    ("--tmp-overlay DEST", "An overlay that ends with the sandbox"),
    ("--ro-overlay DEST", "A read-only overlay"),
    ("--exec-label LABEL", "Not supported"),
    ("--file-label LABEL", "Not supported"),
    ("--proc DEST", "A procfs at DEST"),
    ("--dev DEST", "A minimal /dev at DEST"),
    ("--tmpfs DEST", "A tmpfs at DEST"),
    ("--mqueue DEST", "The message queues at DEST"),
    ("--dir DEST", "Make a directory, outside of the host's"),
    ("--file FD DEST", "Make a file of what FD gives, outside of the host's"),
    ("--bind-data FD DEST", "Show what FD gives as a file"),
    ("--ro-bind-data FD DEST", "The same, read-only"),
    ("--symlink SRC DEST", "Make a symbolic link, outside of the host's"),
    ("--seccomp FD", "Filter system calls by the program in FD"),
    ("--add-seccomp-fd FD", "The same, more than once"),
    ("--block-fd FD", "Wait until FD can be read before the command starts"),
    ("--userns-block-fd FD", "Wait for FD, and leave the user maps to others"),
    ("--info-fd FD", "Write what was made to FD, as JSON"),
    ("--json-status-fd FD", "The same, and the exit status"),
    ("--new-session", "A new session, without a terminal"),
    ("--die-with-parent", "End with the process that started this one"),
    ("--as-pid-1", "No process above the command that reaps"),
    ("--cap-add CAP, --cap-drop CAP", "Have a capability or ALL of them inside, or not"),
    ("--perms OCTAL, --size BYTES", "For the next option; and --chmod OCTAL PATH"),
];
