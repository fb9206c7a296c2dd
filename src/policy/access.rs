//! The five things a rule can say about a path.

use std::fmt;

/// What a command may do with a path, from the strictest to the most permissive.
///
/// `Overlay` and `Private` are equally strict: neither touches the host's own file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// Cannot be seen.
    Hide,
    /// Can be read, never written, whether it exists or not.
    Read,
    /// Can be read; writes go to a copy-on-write layer that ends with the run.
    Overlay,
    /// A directory of the session's own appears there instead.
    Private,
    /// Can be written.
    Write,
}

impl Access {
    /// How permissive this access is; a smaller number is stricter.
    #[must_use]
    pub fn rank(self) -> u8 {
        match self {
            Self::Hide => 0,
            Self::Read => 1,
            Self::Overlay | Self::Private => 2,
            Self::Write => 3,
        }
    }

    /// Is `self` stricter than `other`?
    #[must_use]
    pub fn is_stricter_than(self, other: Self) -> bool {
        self.rank() < other.rank()
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hide => "hide",
            Self::Read => "read",
            Self::Overlay => "overlay",
            Self::Private => "private",
            Self::Write => "write",
        })
    }
}
