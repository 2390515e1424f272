//! Codex: the output of `codex exec --json`, and session rollouts (pure).

mod exec;
mod output;

mod rollout;

pub(super) use exec::CodexExec;
pub(super) use rollout::CodexRollout;
