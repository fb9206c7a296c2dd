//! What a session is called.

use std::fmt;
use std::str::FromStr;

use crate::sys::host;

/// How the directories of sessions that belong to one run begin.
pub(super) const ANONYMOUS: &str = "anon-";
const LONGEST: usize = 128;

/// A session's id: 1–128 of `[A-Za-z0-9._-]`, not starting with a dot. That makes it a file name that is never `..`,
/// never hidden and never one of ours (which start with a dot).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Id(String);

/// A text that is no session id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    #[error("a session id cannot be empty")]
    Empty,
    #[error("session id is {0} bytes long, at most {LONGEST} are allowed")]
    Long(usize),
    #[error("session id {0:?} starts with a dot")]
    Dot(String),
    #[error("session id {id:?} contains {bad:?}, allowed are letters, digits, '.', '_' and '-'")]
    Character { id: String, bad: char },
}

impl Id {
    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A new id that nobody has.
    ///
    /// # Errors
    /// When the kernel gives no random bytes.
    pub fn random() -> super::Result<Self> {
        Ok(Self(format!("s-{}", host::random_name().map_err(super::Error::Host)?)))
    }

    pub(super) fn anonymous(random: &str) -> Self {
        Self(format!("{ANONYMOUS}{random}"))
    }

    /// May this be a run's own session? Only its record says whether it is.
    pub(super) fn looks_anonymous(&self) -> bool {
        self.0.starts_with(ANONYMOUS)
    }
}

impl FromStr for Id {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if text.is_empty() {
            return Err(IdError::Empty);
        }
        if text.len() > LONGEST {
            return Err(IdError::Long(text.len()));
        }
        if text.starts_with('.') {
            return Err(IdError::Dot(text.into()));
        }
        match text.chars().find(|c| !allowed(*c)) {
            Some(bad) => Err(IdError::Character { id: text.into(), bad }),
            None => Ok(Self(text.into())),
        }
    }
}

impl TryFrom<String> for Id {
    type Error = IdError;

    fn try_from(text: String) -> Result<Self, IdError> {
        text.parse()
    }
}

impl From<Id> for String {
    fn from(id: Id) -> Self {
        id.0
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_is_exact() {
        let longest = "x".repeat(128);
        for good in ["a", "A.b_c-9", "-x", "_", "a..b", &longest] {
            assert_eq!(good.parse::<Id>().unwrap().as_str(), good);
        }
        assert_eq!("".parse::<Id>(), Err(IdError::Empty));
        assert_eq!("x".repeat(129).parse::<Id>(), Err(IdError::Long(129)));
        for bad in [".", "..", ".x"] {
            assert_eq!(bad.parse::<Id>(), Err(IdError::Dot(bad.into())));
        }
        for bad in ["a/b", "a b", "ä", "a\n", "a\0", "a%"] {
            assert!(matches!(bad.parse::<Id>(), Err(IdError::Character { .. })), "{bad:?}");
        }
    }
}
