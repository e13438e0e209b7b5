# `sluice serve` (docs/serve.md): docker build -t sluice . && docker run -p 8788:8788 -e DECIDE_TOKEN -e REDIS_URL=redis://… sluice
# What is built runs on every platform, so nothing is emulated.
FROM --platform=$BUILDPLATFORM node:24.21.0-bookworm-slim@sha256:0e0ff40c39bc087845bfb27465a0df4ea419520094bc35842ff83dd8cbe6f9b6 AS build
WORKDIR /sluice
COPY . .
RUN npm ci && npm ci --prefix ops/image --ignore-scripts

FROM node:24.21.0-bookworm-slim@sha256:0e0ff40c39bc087845bfb27465a0df4ea419520094bc35842ff83dd8cbe6f9b6
LABEL org.opencontainers.image.title=sluice \
  org.opencontainers.image.description="Rate limits for proxies and for programs in any language" \
  org.opencontainers.image.licenses=MIT
WORKDIR /sluice
COPY --from=build /sluice/lib/command ./
COPY --from=build /sluice/ops/image/node_modules ./node_modules
# By number: Kubernetes cannot tell whether a name is root.
USER 1000:1000
ENV PORT=8788 HEALTH_PATH=/_sluice/health
EXPOSE 8788
HEALTHCHECK CMD ["node", "-e", "fetch('http://127.0.0.1:' + process.env.PORT + process.env.HEALTH_PATH).then(({ ok }) => process.exit(ok ? 0 : 1))"]
ENTRYPOINT ["node", "cli.js", "serve", "--host", "0.0.0.0"]
