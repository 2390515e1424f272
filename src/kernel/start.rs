//! The preparation of a kernel's start: ports, a key, and a connection file.

use std::fs::DirBuilder;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::DirBuilderExt;

use super::connection::ConnectionInfo;
use super::jupyter_dirs::JupyterDirs;
use super::kernelspec::KernelSpec;
use super::process::KernelStart;
use super::session::random_digits;
use crate::child::KillHandle;
use crate::error::{Error, Result};

/// Writes the connection file of a kernel that is to be started, where Jupyter's programs find it.
pub(super) fn prepare_start(spec: &KernelSpec) -> Result<(ConnectionInfo, KernelStart)> {
    let directory = JupyterDirs::of_environment().runtime().ok_or_else(|| {
        Error::invalid(
            "there is no directory for connection files: set HOME or JUPYTER_RUNTIME_DIR",
        )
    })?;
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&directory)
        .map_err(|cause| Error::file("cannot create", &directory, cause))?;
    let ports = free_ports()
        .map_err(|cause| Error::other("cannot find free ports for a kernel").because(cause))?;
    let ip = Ipv4Addr::LOCALHOST.to_string();
    let info = ConnectionInfo::new(ip, ports, random_digits()?, spec.name().to_owned());
    let connection_file = directory.join(format!("kernel-td-{}.json", random_digits()?));
    info.write(&connection_file)?;
    let start = KernelStart {
        spec: spec.clone(),
        connection_file,
        kill_handle: KillHandle::default(),
    };
    Ok((info, start))
}

/// Returns five ports that are free now. The kernel binds them a moment later; if another program is
/// faster, the kernel ends and says so.
fn free_ports() -> io::Result<[u16; 5]> {
    let mut ports = [0; 5];
    // They are held until all five are known, so that they differ.
    let mut held = Vec::new();
    for port in &mut ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        *port = listener.local_addr()?.port();
        held.push(listener);
    }
    Ok(ports)
}
