//! Prepares the start of a kernel: ports, a key and a connection file.

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

/// Chooses ports and a key for a new kernel, and writes its connection file to Jupyter's runtime directory.
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

/// Returns five free ports. If another program binds one before the kernel does, the kernel ends with an
/// error.
fn free_ports() -> io::Result<[u16; 5]> {
    let mut ports = [0; 5];
    // Keep each port bound until all five are known, so that they differ.
    let mut held = Vec::new();
    for port in &mut ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        *port = listener.local_addr()?.port();
        held.push(listener);
    }
    Ok(ports)
}
