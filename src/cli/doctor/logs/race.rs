//! The messages with which bubblewrap fails to start when a neighbour removes, or has just made, a mount point that it
//! counts on.

/// Which of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Race {
    SourcePath,
    SourceType,
    Remount,
    CreateFile,
}

/// How a bind fails whose mount has gone meanwhile: on the mount itself, and on one below it.
const REMOUNT: [&str; 2] = [": Unable to remount destination ", ": Unable to apply mount flags: remount "];

impl Race {
    /// The message that a line is. One that merely holds it is a quotation, and no failure.
    pub(super) fn of_line(line: &str) -> Option<Self> {
        let message = line.strip_prefix("bwrap: Can't ")?;
        if message.starts_with("find source path ") {
            Some(Self::SourcePath)
        } else if message.starts_with("get type of source ") {
            Some(Self::SourceType)
        } else if message.starts_with("bind mount ") && REMOUNT.iter().any(|text| message.contains(text)) {
            Some(Self::Remount)
        } else if message.starts_with("create file at ") && message.ends_with(": Read-only file system") {
            Some(Self::CreateFile)
        } else {
            None
        }
    }

    /// The first such message that begins a line of a text.
    pub(super) fn of_text(text: &str) -> Option<Self> {
        text.lines().find_map(Self::of_line)
    }

    pub(super) fn text(self) -> &'static str {
        match self {
            Self::SourcePath => "bwrap: Can't find source path …",
            Self::SourceType => "bwrap: Can't get type of source …",
            Self::Remount => "bwrap: Can't bind mount … remount …",
            Self::CreateFile => "bwrap: Can't create file at …: Read-only file system",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_four_messages() {
        let of = Race::of_line;
        assert_eq!(of("bwrap: Can't find source path /p/.mcp.json: No such file or directory"), Some(Race::SourcePath));
        assert_eq!(
            of("bwrap: Can't get type of source /p/.git/config.lock: No such file or directory"),
            Some(Race::SourceType)
        );
        let remount = "bwrap: Can't bind mount /oldroot/p on /newroot/p: Unable to ";
        assert_eq!(
            of(&format!("{remount}apply mount flags: remount \"/newroot/p\": No such file or directory")),
            Some(Race::Remount)
        );
        assert_eq!(
            of(&format!("{remount}remount destination \"/newroot/p\" with correct flags: Invalid argument")),
            Some(Race::Remount)
        );
        assert_eq!(of("bwrap: Can't create file at /newroot/p/.claude: Read-only file system"), Some(Race::CreateFile));
    }

    #[test]
    fn other_messages_and_quotations_are_none() {
        for line in [
            "bwrap: Can't create file at /newroot/p/.claude: Permission denied",
            "bwrap: Can't bind mount /a on /remount: Unable to mount source on destination",
            "bwrap: Can't mkdir /newroot/p: Read-only file system",
            " bwrap: Can't find source path /p: No such file or directory",
            "> bwrap: Can't find source path /p: No such file or directory",
            "log.txt:3:bwrap: Can't find source path /p: No such file or directory",
        ] {
            assert!(Race::of_line(line).is_none(), "{line}");
        }
        assert_eq!(Race::of_text("Exit code 1\nbwrap: Can't find source path /p: No"), Some(Race::SourcePath));
    }
}
