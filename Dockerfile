# The server over HTTP, whose computers are containers of the host's engine: see compose.yaml and README.md.

FROM debian:12 AS build
WORKDIR /src
COPY tools/setup tools/
RUN tools/setup build
COPY . .
RUN make build

FROM debian:12-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends libjansson4 libmicrohttpd12 libuv1 \
    && rm -rf /var/lib/apt/lists/*
# The user that packaging/docker/entrypoint becomes.
RUN install -d -m 0711 -o 10001 -g 10001 /var/lib/mcp-sandbox-computer-vm-for-ai
COPY packaging/docker/ /usr/local/bin/
COPY --from=build /src/build/src/mcp-sandbox-computer-vm-for-ai /usr/local/bin/
ENV HOME=/var/lib/mcp-sandbox-computer-vm-for-ai \
    STATE_DIRECTORY=/var/lib/mcp-sandbox-computer-vm-for-ai \
    SANDBOX_BACKEND=docker
VOLUME /var/lib/mcp-sandbox-computer-vm-for-ai
EXPOSE 8080
HEALTHCHECK --interval=30s --timeout=5s --start-period=5s CMD ["healthcheck"]
ENTRYPOINT ["entrypoint"]
# Other machines get to this address: it wants a token, or --allow-unauthenticated-http.
CMD ["--transport", "http", "--host", "0.0.0.0", "--port", "8080"]
