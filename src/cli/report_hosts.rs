//! `report --host`: each host makes its own report of its own files, and they are merged.

use std::path::PathBuf;

use super::failure::Failure;
use super::hosts::{HostsToAsk, to_ask};
use super::options::Options;
use crate::clock::Clock;
use crate::face::LocalTime;
use crate::face::report::{HostReport, Report, ReportQuery, arrived, merged};
use crate::hosts::{HostName, ReportQuestion, ask_for_reports};
use crate::thread::{Stop, is_stopped};

/// Returns the report of this host, or of all that are named, of these runs. `here` makes that of this one, of these runs.
///
/// # Errors
/// If a host's name is none, if it is interrupted, or if this host alone is asked and fails.
pub(super) fn report(
    options: &Options,
    (typed, runs): (&[String], &[PathBuf]),
    query: &ReportQuery,
    (stop, clock): (&Stop, &Clock),
    here: impl FnOnce(&[PathBuf]) -> Result<Report, Failure>,
) -> Result<Report, Failure> {
    if options.reads_hosts() {
        // Copies of what hosts have shipped.
        return here(runs);
    }
    let named = to_ask(typed, &options.host_settings, &options.home()?)?;
    let Some(HostsToAsk { hosts, ssh }) = named else {
        return here(runs);
    };
    let names = hosts.iter().flatten().map(|(host, _)| host.clone());
    let names: Vec<HostName> = names.collect();
    let wanted = Wanted::of(runs, &names)?;
    let mut questions = Vec::new();
    for (host, program) in hosts.iter().flatten() {
        questions.extend(wanted.of_host(host).map(|runs| ReportQuestion {
            host: host.clone(),
            program: program.clone(),
            args: args(query, &runs),
        }));
    }
    let (span, leaves_out) = ((query.since, query.until), query.texts.is_left_out());
    let read = move |json: &[u8]| arrived(json, span, leaves_out);
    let asked = ask_for_reports(questions, &ssh, read, (stop, clock))?;
    let has_local = hosts.contains(&None);
    // Others work meanwhile.
    let own = wanted.here().filter(|_| has_local).map(|runs| here(&runs));
    let mut answers = asked.answers();
    if is_stopped(stop) {
        return Err(Failure::interrupted("interrupted: there is no report"));
    }
    let mut own = own;
    let reports = hosts.into_iter().filter_map(|host| {
        let report = match &host {
            None => own.take()?.map_err(|failure| failure.text().to_owned()),
            Some((host, _)) => {
                let place = answers.iter().position(|(of, _)| of == host)?;
                let (_, answer) = answers.swap_remove(place);
                answer.map_err(|problem| problem.to_string())
            }
        };
        Some(HostReport {
            host: host.map(|(host, _)| host.to_string()),
            report,
        })
    });
    Ok(merged(reports.collect(), query, LocalTime::of_system()))
}

/// Returns the words of the program on another host.
fn args(query: &ReportQuery, runs: &[String]) -> Vec<String> {
    let (since, until) = (query.since.to_string(), query.until.to_string());
    let words = ["report", "--json", "--since", &since, "--until", &until];
    let mut args: Vec<String> = words.map(str::to_owned).to_vec();
    if query.texts.is_left_out() {
        args.push("--metadata-only".to_owned());
    }
    if !runs.is_empty() {
        args.push("--".to_owned());
        args.extend_from_slice(runs);
    }
    args
}

/// The runs that are wanted: of one host, as in `web/build`, or of all.
struct Wanted {
    runs: Vec<(Option<HostName>, String)>,
}

impl Wanted {
    fn of(typed: &[PathBuf], hosts: &[HostName]) -> Result<Self, Failure> {
        let mut runs = Vec::new();
        for path in typed {
            let name = path.to_str();
            let name = name.ok_or_else(|| usage!("{path:?}: a run's name is a text in UTF-8"))?;
            let host = hosts.iter().find(|host| host.strip(name).is_some());
            let own = host.and_then(|host| host.strip(name)).unwrap_or(name);
            if own.is_empty() {
                return Err(usage!("{name:?} names no run: write HOST/RUN"));
            }
            runs.push((host.cloned(), own.to_owned()));
        }
        Ok(Self { runs })
    }

    /// Returns the runs of a host, all if there are none; `None` if only those of others are wanted.
    fn of_host(&self, host: &HostName) -> Option<Vec<String>> {
        self.wanted(|of| of.as_ref().is_none_or(|of| of == host))
    }

    /// Returns the runs of this host in the same way.
    fn here(&self) -> Option<Vec<PathBuf>> {
        let runs = self.wanted(Option::is_none)?;
        Some(runs.into_iter().map(PathBuf::from).collect())
    }

    fn wanted(&self, is_its: impl Fn(&Option<HostName>) -> bool) -> Option<Vec<String>> {
        let its = self.runs.iter().filter(|(host, _)| is_its(host));
        let its: Vec<String> = its.map(|(_, name)| name.clone()).collect();
        (self.runs.is_empty() || !its.is_empty()).then_some(its)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_a_host_is_asked_of_that_host_alone() {
        let [web, db] = ["web", "db"].map(|name| name.parse::<HostName>().unwrap());
        let hosts = [web.clone(), db.clone()];
        let of = |runs: &[&str]| {
            let runs: Vec<PathBuf> = runs.iter().map(PathBuf::from).collect();
            let wanted = Wanted::of(&runs, &hosts).ok()?;
            let here = wanted.here().map(|runs| runs.len());
            Some((wanted.of_host(&web), wanted.of_host(&db), here))
        };
        let runs = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
        assert_eq!(of(&[]), Some((runs(&[]), runs(&[]), Some(0))));
        assert_eq!(of(&["web/a@1"]), Some((runs(&["a@1"]), None, None)));
        let both = Some((runs(&["a", "b*"]), runs(&["b*"]), Some(1)));
        assert_eq!(of(&["web/a", "b*"]), both);
        assert_eq!(of(&["db/"]), None);
    }
}
