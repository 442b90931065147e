//! Temporary entry.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
use outbox_router::{app::App, config};
fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let file = std::env::args().nth(2).map(std::path::PathBuf::from);
    let env = config::Environment::new(std::env::vars_os());
    let config = config::load(file.as_deref(), &env, &[]).map_err(|e| anyhow::anyhow!("{e:?}"))?;
    let app = App::build(config, relay::OnFatal::Stay, &|n| std::env::var(n).ok())?;
    let outcome = app.run()?;
    eprintln!("{outcome:?}");
    Ok(())
}
