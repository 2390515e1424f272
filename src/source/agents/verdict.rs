//! Whether an agent is done, by where it stands and for how long nothing was written (pure).

use std::time::Duration;

use crate::agent::{Standing, StreamFormat};

/// So long a record that ends a turn must stand alone: the one behind it may say that background
/// tasks still run.
const HOLD: Duration = Duration::from_secs(1);

/// What is known of an agent's output.
#[derive(Debug)]
pub(super) struct Facts<'a> {
    pub standing: Standing,
    pub format: Option<StreamFormat>,
    /// What its records say of where it stands.
    pub evidence: &'a str,
    /// What it said last.
    pub answer: &'a str,
    /// What it failed with, where it said so.
    pub error: &'a str,
    /// For how long nothing was written.
    pub quiet: Duration,
}

/// How an agent ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Completed { result: String, evidence: String },
    Failed { error: String, evidence: String },
}

/// How the agent ended, if it has. `stable` is how long a file must be unchanged where its records
/// do not say.
pub(super) fn judge(facts: &Facts<'_>, stable: Duration) -> Option<Verdict> {
    let completed = |evidence: String| {
        Some(Verdict::Completed {
            result: facts.answer.to_owned(),
            evidence,
        })
    };
    let is_held = facts.quiet >= HOLD;
    let is_stable = facts.quiet >= stable;
    match facts.standing {
        Standing::Done if is_held => completed(facts.evidence.to_owned()),
        Standing::Failed | Standing::Interrupted if is_held => {
            let error = match (facts.error, facts.standing) {
                (_, Standing::Interrupted) => "interrupted",
                ("", _) => facts.evidence,
                (error, _) => error,
            };
            Some(Verdict::Failed {
                error: error.to_owned(),
                evidence: facts.evidence.to_owned(),
            })
        }
        Standing::MaybeDone if is_stable => completed(format!(
            "inferred: it has answered, and nothing was written for {stable:?}"
        )),
        // Of a format that nobody knows a record says nothing, and text never does.
        Standing::Working | Standing::Unknown if is_stable && !is_known(facts.format) => {
            completed(format!("inferred: nothing was written for {stable:?}"))
        }
        // A tool or a background task may take as long as it likes.
        _ => None,
    }
}

fn is_known(format: Option<StreamFormat>) -> bool {
    !matches!(
        format,
        None | Some(StreamFormat::Json) | Some(StreamFormat::Text)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_evidence_where_records_say_nothing() {
        use Standing::{Background, Done, Failed, MaybeDone, Unknown, Working};
        let claude = Some(StreamFormat::ClaudeTranscript);
        for (standing, format, quiet, word) in [
            (Done, claude, 0, ""),
            (Done, claude, 2, "end_turn"),
            (Failed, claude, 2, "end_turn"),
            (MaybeDone, claude, 9, ""),
            (MaybeDone, claude, 10, "inferred: it has answered"),
            (Working, claude, 1_000_000, ""),
            (Background { tasks: 1 }, claude, 1_000_000, ""),
            (Unknown, claude, 1_000_000, ""),
            (Working, Some(StreamFormat::Json), 9, ""),
            (Working, Some(StreamFormat::Json), 10, "inferred: nothing"),
            (Unknown, Some(StreamFormat::Text), 10, "inferred: nothing"),
            (Unknown, None, 10, "inferred: nothing"),
        ] {
            let facts = Facts {
                standing,
                format,
                evidence: "end_turn",
                answer: "yes",
                error: "",
                quiet: Duration::from_secs(quiet),
            };
            let verdict = judge(&facts, Duration::from_secs(10));
            let found = match &verdict {
                Some(Verdict::Completed { evidence, .. } | Verdict::Failed { evidence, .. }) => {
                    evidence.as_str()
                }
                None => "",
            };
            assert!(
                found.starts_with(word) && found.is_empty() == word.is_empty(),
                "{facts:?}: {verdict:?}"
            );
        }
    }
}
