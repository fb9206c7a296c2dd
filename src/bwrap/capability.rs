//! Names of capabilities (`capabilities(7)`).

/// A set, bit by bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Capabilities(pub(super) u64);

/// In the order of their numbers.
const NAMES: [&str; 41] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
];

impl Capabilities {
    /// `ALL`, or `CAP_NAME` in any case, as `cap_from_name(3)` takes it.
    pub(super) fn parse(name: &str) -> Option<Self> {
        if name.eq_ignore_ascii_case("ALL") {
            return Some(Self((1 << NAMES.len()) - 1));
        }
        let upper = name.to_ascii_uppercase();
        let bare = upper.strip_prefix("CAP_")?;
        let number = NAMES.iter().position(|known| *known == bare)?;
        Some(Self(1 << number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_numbers() {
        assert_eq!(Capabilities::parse("CAP_SETFCAP"), Some(Capabilities(1 << 31)));
        assert_eq!(Capabilities::parse("cap_chown"), Some(Capabilities(1)));
        assert_eq!(Capabilities::parse("all").map(|all| all.0.count_ones()), Some(41));
        assert_eq!((Capabilities::parse("FOO"), Capabilities::parse("SETFCAP")), (None, None));
    }
}
