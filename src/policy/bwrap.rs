//! What the user's own configuration says of calls in the place of bubblewrap.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::Problem;
use super::expand::expand;
use super::file::{BwrapTable, PolicyFile};
use super::settings::{IDLE, checked_name};
use super::{Context, Error, Origin, Setting};

/// The table `[bwrap]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bwrap {
    /// Who says that `/tmp` of the host is the session's own inside.
    pub private_tmp: Option<Origin>,
    /// Names of variables; the first that is set and not empty gives the session's id.
    pub id_from: Vec<String>,
    /// Where denials are told.
    pub report: Option<Setting<ReportTo>>,
    /// How long a session without runs and owner lives, as `[session]` says.
    pub idle: Duration,
}

impl Default for Bwrap {
    fn default() -> Self {
        Self { private_tmp: None, id_from: Vec::new(), report: None, idle: IDLE }
    }
}

/// Where denials are told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReportTo {
    Stderr,
    /// Lines are added to it.
    File(PathBuf),
}

impl Bwrap {
    /// Read the user's configuration, which need not be there. Nothing else of it holds for such calls, but all of it has to
    /// be well-formed.
    ///
    /// # Errors
    /// As [`load`](super::load).
    pub fn read(config: &Path, context: &Context) -> Result<Self, Error> {
        let Some(file) = PolicyFile::read_if_present(config, &context.cwd)? else { return Ok(Self::default()) };
        file.document.bwrap.as_ref().map_or_else(|| Ok(Self::default()), |table| of(table.get_ref(), &file, context))
    }
}

fn of(table: &BwrapTable, file: &PolicyFile, context: &Context) -> Result<Bwrap, Error> {
    let private_tmp = table.private_tmp.as_ref().filter(|private| *private.get_ref());
    let report = table.report.as_ref().map(|report| {
        let (at, text) = (report.span().start, report.get_ref());
        let value = report_to(text, context).map_err(|problem| file.fault(at, problem))?;
        Ok(Setting { value, origin: file.origin(at) })
    });
    Ok(Bwrap {
        private_tmp: private_tmp.map(|private| file.origin(private.span().start)),
        id_from: table.id_from.iter().map(|name| checked_name(name, file)).collect::<Result<_, _>>()?,
        report: report.transpose()?,
        idle: file.document.session.idle.unwrap_or(IDLE),
    })
}

fn report_to(text: &str, context: &Context) -> Result<ReportTo, Problem> {
    if text == "stderr" {
        return Ok(ReportTo::Stderr);
    }
    let path = PathBuf::from(OsString::from_vec(expand(text.as_bytes(), context)?.text));
    // Calls come from everywhere: a relative one would be another file each time.
    if path.is_absolute() { Ok(ReportTo::File(path)) } else { Err(Problem::ReportTo) }
}
