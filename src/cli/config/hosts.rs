//! Reads which hosts are read without `--host`, and where their programs are: `[hosts]` and `[hosts.NAME]`.

use toml::Spanned;
use toml::de::DeValue;

use super::host_settings::{HostSettings, LOCAL};
use super::keys::{HOSTS, Origin, best_of, quoted};
use super::reader::{Problem, Reader, text, wrong_type};
use super::section::Section;
use super::table::{Fault, Table, of_key, shown_plainly};
use crate::hosts::HostName;

/// The key of the hosts that are read without `--host`.
const NAMES: &str = "names";

/// The key of the program on a host.
const COMMAND: &str = "command";

/// The variable that takes precedence over [`NAMES`], in which colons separate names: no name has one.
const VARIABLE: &str = "TD_HOSTS";

impl Reader<'_> {
    /// Reads the table of hosts.
    pub(super) fn read_hosts(&mut self, at: usize, value: &Spanned<DeValue<'_>>) {
        let DeValue::Table(table) = value.get_ref() else {
            let why = "hosts: write [hosts], and below it names = [\"local\", \"build-1\"]";
            return self.report(at, why);
        };
        let mut settings = HostSettings::default();
        let hosts = Table { at, table };
        if let Some(value) = hosts.get(NAMES) {
            match names(value) {
                Ok(names) => settings.standing = names,
                Err((at, why)) => self.report(at, &format!("{HOSTS}.{why}")),
            }
            self.keep_hosts(HOSTS.to_owned(), &hosts, NAMES);
        }
        let others = table.iter().filter(|(name, _)| name.get_ref() != NAMES);
        let mut others: Vec<_> = others.collect();
        others.sort_by_key(|(name, _)| name.span().start);
        for (name, value) in others {
            let at = name.span().start;
            let name = name.get_ref();
            if let DeValue::Table(table) = value.get_ref() {
                let program = self.host(name, &Table { at, table });
                let program = program.map(|program| (name.to_string(), program));
                settings.programs.extend(program);
            } else {
                let why = best_of(name, [NAMES].into_iter(), "hosts has no key");
                let why = format!("{why}; the program of a host is in a table [hosts.NAME]");
                self.report(at, &why);
            }
        }
        self.hosts = settings;
    }

    /// Returns the program on a host.
    fn host(&mut self, name: &str, table: &Table<'_, '_>) -> Option<String> {
        let before = self.problems.len();
        let shown = format!("{HOSTS}.{}", key_of(name));
        if name == LOCAL {
            self.report(table.at, "hosts.local: this host runs this program itself");
        } else if let Err(why) = name.parse::<HostName>() {
            self.report(table.at, &format!("hosts: {why}"));
        }
        for (key, _) in table.table.iter() {
            if key.get_ref() != COMMAND {
                let why = best_of(key.get_ref(), [COMMAND].into_iter(), "a host has no key");
                self.report(key.span().start, &format!("{shown}: {why}"));
            }
        }
        let program = table.required(COMMAND, "\"/opt/td/td-observe\"");
        let program = program.and_then(|value| program_of(value).map_err(of_key(COMMAND)));
        match program {
            Ok(program) if self.problems.len() == before => {
                self.keep_hosts(shown, table, COMMAND);
                Some(program)
            }
            Ok(_) => None,
            Err((at, why)) => {
                self.report(at, &format!("{shown}: {why}"));
                None
            }
        }
    }

    fn keep_hosts(&mut self, name: String, table: &Table<'_, '_>, key: &'static str) {
        self.keep_section(name, table, &[key], |_, value| shown_plainly(value));
    }
}

/// Returns the hosts of the variable, and the table that says the same; `None` if it is not set.
///
/// # Errors
/// What is wrong in it.
pub(super) fn of_variable() -> Result<Option<(Vec<String>, Section)>, Problem> {
    let Some(value) = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let problem = |why: &str| Problem::new(VARIABLE.to_owned(), why);
    let value = value.to_str();
    let value = value.ok_or_else(|| problem("it is no text in UTF-8"))?;
    let names = value.split(':').filter(|name| !name.is_empty());
    let names: Vec<String> = names.map(str::to_owned).collect();
    for name in &names {
        check_name(name).map_err(|why| problem(&why))?;
    }
    let origin = Origin::Variable(VARIABLE.to_owned());
    let section = Section {
        name: HOSTS.to_owned(),
        origin: origin.clone(),
        values: vec![(NAMES, names.clone().into(), origin)],
    };
    Ok(Some((names, section)))
}

fn names(value: &Spanned<DeValue<'_>>) -> Result<Vec<String>, Fault> {
    let DeValue::Array(array) = value.get_ref() else {
        let wrong = wrong_type(value, "a list of texts, as in [\"local\", \"build-1\"]");
        return Err(wrong).map_err(of_key(NAMES));
    };
    let name = |value: &Spanned<DeValue<'_>>| {
        let name = text(value)?;
        check_name(&name).map_err(|why| (value.span().start, why))?;
        Ok(name)
    };
    let names: Result<Vec<String>, Fault> = array.iter().map(name).collect();
    names.map_err(of_key(NAMES))
}

fn check_name(name: &str) -> Result<(), String> {
    if name == LOCAL {
        return Ok(());
    }
    let parsed = name.parse::<HostName>();
    parsed
        .map(drop)
        .map_err(|why| format!("{}: {why}", quoted(name)))
}

/// Returns the program: a word, not a command line, whose home directory is that of the host.
fn program_of(value: &Spanned<DeValue<'_>>) -> Result<String, Fault> {
    let program = text(value)?;
    let fault = |why: &str| Err((value.span().start, why.to_owned()));
    if program.is_empty() {
        fault("it is empty")
    } else if program.contains(char::is_control) {
        fault("it contains a control character")
    } else {
        Ok(program)
    }
}

/// Returns a name as a key of a file.
fn key_of(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !name.is_empty() && name.chars().all(is_bare) {
        name.to_owned()
    } else {
        quoted(name)
    }
}
