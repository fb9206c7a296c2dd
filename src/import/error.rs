//! Settings that the tool itself would not take.

/// Why no policy can be made of a file at all.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("not JSON")]
    Json(#[from] serde_json::Error),
    #[error("not TOML: {0}")]
    Toml(String),
    /// Guessing what was meant could drop what it denies.
    #[error("{key} has to be {expected}")]
    Wrong { key: String, expected: &'static str },
}

impl Error {
    pub(super) fn wrong(key: impl Into<String>, expected: &'static str) -> Self {
        Self::Wrong { key: key.into(), expected }
    }
}
