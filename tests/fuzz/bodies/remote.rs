//! Any bytes as what another host's observer answers: its rows, events and runs bear its name and no other, and nothing
//! of it looks like a path or an execution of this host.

use td_observe::internals::fuzzing::remote_names;

/// The name under which the host is read.
const HOST: &str = "web";

pub fn run(bytes: &[u8]) {
    for line in bytes.split(|byte| *byte == b'\n') {
        let Some(names) = remote_names(HOST, line) else {
            continue;
        };
        for id in names.ids {
            assert!(id.starts_with("web/"), "{id:?}");
        }
        for path in names.paths {
            assert!(path.starts_with("web:"), "{path:?}");
        }
        assert!(
            names.hosts.iter().all(|host| host == HOST),
            "{:?}",
            names.hosts
        );
    }
}
