//! Detects interactive shells by their names and command lines (pure).

use crate::agent::program_name;

/// Interactive shells. `tcsh` and similar ones have the same options.
const SHELLS: &[&str] = &[
    "ash", "bash", "csh", "dash", "elvish", "fish", "ksh", "ksh93", "lksh", "mksh", "nu", "oksh",
    "osh", "pwsh", "rbash", "sh", "tcsh", "xonsh", "yash", "zsh",
];

/// Returns true if a program of this name is an interactive shell.
pub(crate) fn is_shell(name: &str) -> bool {
    SHELLS.contains(&name)
}

/// Returns true for the command line of a shell that runs a command or a script, and reads no typed commands.
pub(crate) fn runs_script(command: &str) -> bool {
    let arguments = shlex::split(command).unwrap_or_default();
    let program = arguments.first().map(|program| program_name(program));
    program.is_some_and(is_shell) && !is_interactive_shell(&arguments)
}

/// Returns true if these arguments start a shell that reads typed input, because they contain neither a
/// command nor a script. Its exit status is that of its last command, which does not describe its own
/// success.
pub(crate) fn is_interactive_shell(arguments: &[impl AsRef<str>]) -> bool {
    let Some((program, rest)) = arguments.split_first() else {
        return false;
    };
    let name = program_name(program.as_ref());
    if !is_shell(name) {
        return false;
    }
    let has_own_flags = matches!(name, "nu" | "pwsh" | "xonsh" | "elvish");
    let mut rest = rest.iter().map(AsRef::as_ref);
    while let Some(argument) = rest.next() {
        match argument {
            // The remaining arguments belong to the script at standard input.
            "-s" => return true,
            "-" | "--" => return rest.next().is_none(),
            // Long options that run a command.
            "--command" | "--commands" | "-Command" | "-File" => return false,
            "-e" | "-C" if !matches!(name, "nu" | "fish") => {}
            // Options that take the next argument and do not run a command.
            "--rcfile" | "--init-file" | "-o" | "+o" | "-O" | "+O" | "--config"
            | "--env-config" => {
                rest.next();
            }
            // fish and nu: a command to run before the first prompt.
            "-C" | "--init-command" | "-e" | "--execute" => {
                rest.next();
            }
            _ if argument.starts_with("--") => {}
            _ if argument.starts_with('-') && has_own_flags => {
                if argument == "-c" {
                    return is_shell_command(rest.next());
                }
            }
            // `-lc` is `-l -c`.
            _ if argument.starts_with('-') => {
                if argument.contains('c') {
                    return is_shell_command(rest.next());
                }
            }
            _ if argument.starts_with('+') => {}
            _ => return false,
        }
    }
    true
}

/// Returns true if a shell's command only starts an interactive shell, because tmux runs its commands through
/// a shell.
fn is_shell_command(text: Option<&str>) -> bool {
    let Some(text) = text.filter(|text| !text.contains([';', '&', '|', '<', '>', '`', '$', '\n']))
    else {
        return false;
    };
    let words = shlex::split(text).unwrap_or_default();
    match words.split_first() {
        Some((first, rest)) if first == "exec" => is_interactive_shell(rest),
        _ => is_interactive_shell(&words),
    }
}

/// Returns the name of a subshell, which a shell has forked to run parentheses or a loop. Its arguments are
/// the shell's.
pub(crate) fn subshell_name(arguments: &[impl AsRef<str>]) -> String {
    let program = arguments.first().map_or("", AsRef::as_ref);
    format!("({})", program_name(program))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn is_interactive(line: &str) -> bool {
        is_interactive_shell(&shlex::split(line).unwrap())
    }

    #[test]
    fn shells_that_read_typed_input() {
        for line in [
            "-bash",
            "-zsh",
            "/bin/sh",
            "sh -i",
            "bash -l -i",
            "bash --norc --noprofile -i",
            "bash --rcfile /tmp/rc -i",
            "bash -O globstar -o vi",
            "/usr/bin/zsh -l",
            "zsh -o promptsubst",
            "fish",
            "fish -C 'set x 1'",
            "dash",
            "-ksh",
            "mksh -l",
            "nu",
            "nu -e 'ls'",
            "nu --config /etc/x.nu",
            "bash -s one two",
            "bash --",
            "sh -e",
            "sh -c bash",
            "sh -c 'exec bash --norc'",
            "zsh -lc 'exec zsh -l'",
        ] {
            assert!(is_interactive(line), "{line}");
        }
    }

    #[test]
    fn shells_that_run_a_command_are_jobs() {
        for line in [
            "sh -c 'make; exit 3'",
            "bash -c make",
            "bash -lc make",
            "bash -ic make",
            "zsh -xec 'make'",
            "bash script.sh",
            "bash -e script.sh",
            "bash --norc script.sh -i",
            "bash -- script.sh",
            "fish -c make",
            "fish --command make",
            "fish script.fish",
            "nu -c make",
            "nu --commands make",
            "nu script.nu",
            "sh -c 'cd x; bash'",
            "sh -c 'bash script.sh'",
            "python3 -i",
            "make",
            "vim",
            "claude",
            "bashful",
        ] {
            assert!(!is_interactive(line), "{line}");
        }
        assert!(!is_interactive_shell(&[""; 0]), "it has ended");
    }

    #[test]
    fn a_subshell_has_the_name_of_its_shell() {
        assert_eq!(subshell_name(&["/usr/bin/bash", "--norc"]), "(bash)");
        assert_eq!(subshell_name(&["-zsh"]), "(zsh)");
    }

    proptest! {
        #[test]
        fn any_arguments_are_accepted(arguments in proptest::collection::vec(".{0,12}", 0..6)) {
            is_interactive_shell(&arguments);
        }

        #[test]
        fn a_script_makes_any_shell_a_job(
            shell in proptest::sample::select(SHELLS), script in "[a-z]{1,8}\\.x",
        ) {
            prop_assert!(is_interactive_shell(&[shell.to_owned()]));
            prop_assert!(!is_interactive_shell(&[shell.to_owned(), script]));
        }
    }
}
