# Two stages: one compiles, one runs. librdkafka is built from the source in its crate.
#
# The image runs as it is under Kubernetes' restricted Pod Security: as a user by number, without
# capabilities, and with a read-only root, since the router writes to standard error alone.
FROM rust:1.95-bookworm AS build
WORKDIR /source
COPY . .
RUN cargo build --release --locked --package outbox-router

FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates libssl3 zlib1g \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /source/target/release/outbox-router /usr/local/bin/outbox-router
# By number: `runAsNonRoot` cannot judge a name. The number needs no entry in /etc/passwd.
USER 65532:65532
# Loopback, the default, could not be reached from outside of the container. This overrides
# admin.listen in a file; to listen elsewhere, set the variable.
ENV OUTBOX_ROUTER__ADMIN__LISTEN=0.0.0.0:8788
EXPOSE 8788
# Draining takes up to 25 s: stop with `docker stop --time 30`, since the default is 10 s.
STOPSIGNAL SIGTERM
# Whether the router's own tasks run. Not /readyz: whoever restarts what is unhealthy would restart
# the router in an outage of Kafka, which repairs nothing. By bash, so that the image needs no curl, and
# where the variable says that the router listens.
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
    CMD ["bash", "-c", "at=$OUTBOX_ROUTER__ADMIN__LISTEN; host=${at%:*}; case $host in 0.0.0.0|'[::]') host=127.0.0.1;; esac; host=${host#[}; exec 3<>/dev/tcp/${host%]}/${at##*:} && printf 'GET /livez HTTP/1.0\\r\\n\\r\\n' >&3 && read -r _ code _ <&3 && [ \"$code\" = 200 ]"]
ENTRYPOINT ["outbox-router"]
CMD ["run"]
