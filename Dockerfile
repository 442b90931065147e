# Two stages: one compiles, one runs. librdkafka is built from the source in its crate.
FROM rust:1.95-bookworm AS build
WORKDIR /source
COPY . .
RUN cargo build --release --locked --package outbox-router

FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates curl libssl3 zlib1g \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --no-create-home outbox-router
COPY --from=build /source/target/release/outbox-router /usr/local/bin/outbox-router
USER outbox-router
EXPOSE 8788
# Draining takes up to 25 s: stop with `docker stop --time 30`, since the default is 10 s.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=3s --start-period=20s \
    CMD curl --fail --silent --show-error http://127.0.0.1:8788/readyz || exit 1
ENTRYPOINT ["outbox-router"]
CMD ["run"]
