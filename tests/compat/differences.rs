//! What differs on purpose, with the reason. Each is in docs/bwrap.md too.

use crate::support::{is_root, need};
use crate::world::World;

/// A call, the reason why it differs, and the message that ours gives; `None` where it succeeds.
const DIFFERENT: [(&str, &str, Option<&str>); 9] = [
    ("$B $R --bind $W $W --tmpfs $W/new true", "a mount point would be made on the host", Some("Can't mkdir")),
    (
        "$B $R --bind $W $W --ro-bind g $W/new true",
        "a mount point would be made on the host",
        Some("Can't create file at"),
    ),
    ("$B $R --bind $W $W --dir $W/new true", "a directory would be made on the host", Some("Can't mkdir")),
    (
        "$B $R --bind $W $W --file 0 $W/new true </dev/null",
        "a file would be made on the host",
        Some("Can't create file"),
    ),
    ("$B $R --bind $W $W --symlink a $W/new true", "a link would be made on the host", Some("Can't make symlink at")),
    ("$B $R --bind $W $W --chmod 700 $W/d true", "a mode of the host would change", Some("Can't chmod")),
    ("$B $R --ro-bind /dev/null $W/new true", "what is read-only and absent needs no denial", None),
    (
        "$B $R --bind $W $W --ro-bind g $W/g --userns 0 true </proc/self/ns/user",
        "who owns the namespace could change the mounts",
        Some("--userns cannot be had together with a guarded name (--ro-bind g "),
    ),
    (
        "$B $R --bind $W $W --ro-bind g $W/g --pidns 0 true </proc/self/ns/pid",
        "who is in the namespace could end who looks after the mounts",
        Some("Leave --pidns out"),
    ),
];

#[test]
fn differences_are_these() {
    if !need("userns") {
        return;
    }
    let world = World::new();
    for (call, _, message) in DIFFERENT {
        let outcome = world.ours(call);
        match message {
            Some(message) => drop(outcome.status(1).says("bwrap: ").says(message)),
            None => drop(outcome.ok()),
        }
        assert_eq!(world.names().len(), 6, "{call}: {:?}", world.names());
    }
}

#[test]
fn root_is_root_of_its_own_namespace_only() {
    if !need("userns") || !need("root") {
        return;
    }
    let world = World::new();
    assert!(is_root());
    // Devices are made by the host's root alone; here it is that of a user namespace.
    world.ours("$B --bind / / mknod $W/dev c 1 3").fails();
}
