//! What can be wrong with a policy, and where.

use std::io;
use std::path::PathBuf;

use super::{Access, Limit, Origin};

/// A policy that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A policy file that was named is missing or cannot be read.
    #[error("cannot read policy file {}", path.display())]
    Read {
        /// The file, as named.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Something that was written cannot be used.
    #[error("{}: {problem}", place(origin))]
    Written {
        /// Where it was written.
        origin: Origin,
        /// What is wrong with it.
        problem: Box<Problem>,
        /// The line of the file with a caret below the place.
        excerpt: Option<String>,
    },
}

impl Error {
    pub(super) fn written(origin: Origin, problem: Problem) -> Self {
        Self::Written { origin, problem: Box::new(problem), excerpt: None }
    }

    /// The line of the policy file that is wrong, with a caret below the place; `None` for what is not in a file.
    #[must_use]
    pub fn excerpt(&self) -> Option<&str> {
        match self {
            Self::Written { excerpt, .. } => excerpt.as_deref(),
            Self::Read { .. } => None,
        }
    }
}

/// What is wrong with something that was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Not TOML, an unknown key or a wrong type; the text says which.
    #[error("{0}")]
    Syntax(String),
    #[error("`report` is \"stderr\" or an absolute path")]
    ReportTo,
    #[error("only the user's own configuration has a table `bwrap`")]
    NotHere,
    #[error("the path is empty")]
    Empty,
    #[error("the path holds a NUL byte")]
    Nul,
    /// Taking the name away would be wrong where it is a link.
    #[error("`..` after a name is not resolved, the name may be a link: write the path that it leads to")]
    DotDot,
    #[error("`~` stands for the home directory only before `/` or alone; write `\\~` for a name")]
    Tilde,
    #[error("there is no home directory for `~`")]
    NoHome,
    #[error("`$` is not followed by the name of a variable; write `\\$` for a plain `$`")]
    NotAVariable,
    #[error("`${{` has no `}}`")]
    Unclosed,
    #[error("variable {0} is not set; give it a default, `${{{0}:-/some/path}}`, or make the rule optional")]
    UnsetVariable(String),
    /// A session cannot apply a pattern to what is mounted when it starts.
    #[error("{0} takes no patterns, only read and write do; write `\\` before a character that is part of a name")]
    PatternAccess(Access),
    #[error("bad pattern `{pattern}`: {message}")]
    Pattern { pattern: String, message: String },
    #[error("`{0}` is for overlay rules only")]
    OnlyOverlay(&'static str),
    /// The kernel limits file systems, not directories.
    #[error("an overlay on disk cannot be limited to a size")]
    DiskSize,
    #[error("{what} is {access} here and {other} in {}; one layer cannot say both", place(origin))]
    Contradiction { what: String, access: Access, other: Access, origin: Origin },
    #[error("another size or backing for the overlay {what} is in {}; one layer cannot say both", place(origin))]
    OtherOverlay { what: String, origin: Origin },
    #[error("{} belongs to stockade's own state, which no rule may open", .0.display())]
    State(PathBuf),
    #[error("`{0}` is no limit; there are {names}", names = limit_names())]
    NoLimit(String),
    #[error("bad {name} `{text}`, expected {expected}")]
    LimitValue { name: &'static str, text: String, expected: &'static str },
    #[error("`{0}` cannot be the name of an environment variable")]
    VariableName(String),
    #[error("the value of {0} holds a NUL byte")]
    VariableValue(String),
}

fn limit_names() -> String {
    Limit::ALL.map(Limit::name).join(", ")
}

/// An origin to the column; what a person's editor can jump to.
fn place(origin: &Origin) -> String {
    match origin {
        Origin::File { path, line, column } => format!("{}:{line}:{column}", path.display()),
        other => other.to_string(),
    }
}
