//! Accounts for every line of a session in the log.

use super::*;
use crate::observed::read_log;

/// Checks the log of each session.
pub(super) fn check(plan: &Plan, sessions: &[(String, Kind)], data: &Path, summary: &mut Summary) {
    let mut runs: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for run in fs::read_dir(data.join("runs")).unwrap() {
        let run = run.unwrap();
        // The directory of a session is its name, an at sign (which is encoded) and a time.
        let label = run.file_name().into_string().unwrap();
        let name = label.split(['@', '%']).next().unwrap().to_owned();
        runs.entry(name).or_default().push(run.path());
    }
    for (name, kind) in sessions {
        let results = summary.results.entry(*kind).or_default();
        results.sessions += 1;
        let story = match runs.get(name).map(Vec::as_slice) {
            Some([run]) => read_log(run).and_then(|log| follow(name, plan.lines, &log, results)),
            Some(more) => Err(format!("{} runs", more.len())),
            None => Err("no run".to_owned()),
        };
        if let Err(fault) = story {
            summary.faults.push(format!("{name} ({kind:?}): {fault}"));
        }
    }
    for run in runs.remove("keeper").into_iter().flatten() {
        summary.faults.extend(read_log(&run).err());
    }
    let known: Vec<&str> = sessions.iter().map(|(name, _)| name.as_str()).collect();
    let strange = runs.keys().filter(|name| !known.contains(&name.as_str()));
    summary
        .faults
        .extend(strange.map(|name| format!("a run of no session: {name}")));
}

/// Follows one session's lines through its log: each once and in order, or a gap in its place.
pub(super) fn follow(
    name: &str,
    lines: u64,
    log: &[Envelope],
    results: &mut Results,
) -> Result<(), String> {
    let (mut next, mut gap) = (1, None);
    let (mut is_counted, mut lost, mut ended) = (true, 0, false);
    for envelope in log {
        match &envelope.event {
            TdEvent::OutputUpdate {
                first_line, chunk, ..
            } => {
                for (number, line) in (*first_line..).zip(chunk.lines()) {
                    let printed: u64 = line
                        .strip_prefix(name)
                        .and_then(|rest| rest.trim().parse().ok())
                        .ok_or_else(|| format!("a line that was not printed: {line:?}"))?;
                    let missing = printed
                        .checked_sub(next)
                        .ok_or_else(|| format!("line {printed} again, or too late, for {next}"))?;
                    match gap.take() {
                        None if missing > 0 => {
                            return Err(format!("lines {next} to {} silently", printed - 1));
                        }
                        Some(_) if missing == 0 => {
                            return Err(format!("a gap before {printed}, and nothing is missing"));
                        }
                        Some(Some(count)) if count != missing => {
                            return Err(format!("a gap of {count} where {missing} are missing"));
                        }
                        Some(None) => is_counted = false,
                        _ => {}
                    }
                    if is_counted && number != printed as i64 {
                        return Err(format!("line {printed} has the number {number}"));
                    }
                    lost += missing;
                    next = printed + 1;
                }
            }
            TdEvent::OutputGap {
                lost_lines, reason, ..
            } => {
                *results.gaps.entry(reason.to_string()).or_default() += 1;
                // Two in a row are one gap.
                gap = Some(match gap {
                    None => *lost_lines,
                    Some(before) => before.zip(*lost_lines).map(|(one, other)| one + other),
                });
            }
            TdEvent::SessionEnded { .. } => ended = true,
            TdEvent::Warning { .. } | TdEvent::Error { .. } | TdEvent::PollerRestarted { .. } => {
                return Err(format!("{:?}", envelope.event));
            }
            _ => {}
        }
    }
    let missing = lines + 1 - next;
    match gap {
        None if missing > 0 => {
            return Err(format!("its last {missing} lines silently, from {next}"));
        }
        Some(_) if missing == 0 => results.needless_at_end += 1,
        _ => {}
    }
    lost += missing;
    results.lost += lost;
    results.whole += usize::from(lost == 0);
    if !ended {
        return Err("it has no end".to_owned());
    }
    Ok(())
}
