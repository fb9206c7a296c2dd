//! What a policy says besides paths: later layers win, lists grow.

use std::ffi::OsString;
use std::time::Duration;

use toml::Spanned;

use super::error::Problem;
use super::file::{EnvironmentTable, PolicyFile};
use super::load::Sources;
use super::{Environment, Error, GitMode, Limits, Network, Origin, OverlaySettings, SessionSettings, Setting};

/// How long a session without runs and owner lives if nobody says otherwise.
pub(super) const IDLE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The settings of the layers so far.
pub(super) struct Settings {
    pub(super) network: Setting<Network>,
    pub(super) environment: Environment,
    pub(super) session: SessionSettings,
    pub(super) git: Setting<GitMode>,
    pub(super) strict: Setting<bool>,
    pub(super) fast_path: Setting<bool>,
    pub(super) limits: Limits,
    pub(super) overlay: OverlaySettings,
    pub(super) redirect: Setting<bool>,
}

impl Settings {
    pub(super) fn built_in() -> Self {
        Self {
            network: Setting { value: Network::None, origin: Origin::BuiltIn },
            environment: Environment::default(),
            session: SessionSettings { id_from: Vec::new(), idle: IDLE },
            git: Setting { value: GitMode::Guarded, origin: Origin::BuiltIn },
            strict: Setting { value: false, origin: Origin::BuiltIn },
            fast_path: Setting { value: true, origin: Origin::BuiltIn },
            limits: Limits::default(),
            overlay: OverlaySettings::default(),
            redirect: Setting { value: false, origin: Origin::BuiltIn },
        }
    }

    pub(super) fn add_file(&mut self, file: &PolicyFile) -> Result<(), Error> {
        let document = &file.document;
        replace(&mut self.network, document.network.mode.as_ref(), file);
        replace(&mut self.git, document.git.as_ref(), file);
        replace(&mut self.strict, document.strict.as_ref(), file);
        replace(&mut self.fast_path, document.fast_path.as_ref(), file);
        replace(&mut self.redirect, file.redirect.as_ref(), file);
        self.overlay.size = document.overlay.size.or(self.overlay.size);
        self.overlay.scope = document.overlay.scope.unwrap_or(self.overlay.scope);
        self.add_environment(&document.environment, file)?;
        self.session.id_from.extend(checked_names(&document.session.id_from, file)?);
        for (name, value) in &document.limits {
            let (at, origin) = (name.span().start, file.origin(name.span().start));
            let set = self.limits.set(name.get_ref(), &value.get_ref().0, origin);
            set.map_err(|problem| file.fault(at, problem))?;
        }
        if let Some(idle) = document.session.idle {
            self.session.idle = idle;
        }
        Ok(())
    }

    pub(super) fn add_flags(&mut self, sources: &Sources) -> Result<(), Error> {
        if let Some((value, origin)) = sources.network.clone() {
            self.network = Setting { value, origin };
        }
        if let Some((value, origin)) = sources.git.clone() {
            self.git = Setting { value, origin };
        }
        if let Some((value, origin)) = sources.fast_path.clone() {
            self.fast_path = Setting { value, origin };
        }
        if sources.strict {
            self.strict = Setting { value: true, origin: Origin::Flag("--strict".to_owned()) };
        }
        if let Some(origin) = sources.redirect.clone() {
            self.redirect = Setting { value: true, origin };
        }
        sources.limits.iter().try_for_each(|text| self.add_limit(text))
    }

    fn add_limit(&mut self, text: &str) -> Result<(), Error> {
        let origin = Origin::Flag(format!("--limit {text}"));
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        let set = self.limits.set(name, value, origin.clone());
        set.map_err(|problem| Error::written(origin, problem))
    }

    fn add_environment(&mut self, table: &EnvironmentTable, file: &PolicyFile) -> Result<(), Error> {
        if let Some(keep) = &table.keep {
            self.environment.keep = Some(checked_names(keep, file)?);
        }
        self.environment.unset.extend(checked_names(&table.unset, file)?);
        for (name, value) in &table.set {
            let known = checked_name(name, file)?;
            if value.get_ref().contains('\0') {
                return Err(file.fault(value.span().start, Problem::VariableValue(known)));
            }
            self.environment.set.retain(|(other, _)| *other != *known);
            self.environment.set.push((OsString::from(known), OsString::from(value.get_ref())));
        }
        Ok(())
    }
}

fn replace<T: Copy>(setting: &mut Setting<T>, value: Option<&Spanned<T>>, file: &PolicyFile) {
    if let Some(value) = value {
        *setting = Setting { value: *value.get_ref(), origin: file.origin(value.span().start) };
    }
}

fn checked_names(names: &[Spanned<String>], file: &PolicyFile) -> Result<Vec<String>, Error> {
    names.iter().map(|name| checked_name(name, file)).collect()
}

pub(super) fn checked_name(name: &Spanned<String>, file: &PolicyFile) -> Result<String, Error> {
    let text = name.get_ref();
    if text.is_empty() || text.contains(['=', '\0']) {
        return Err(file.fault(name.span().start, Problem::VariableName(text.clone())));
    }
    Ok(text.clone())
}
