# `sluice serve` (docs/serve.md): docker build -t sluice . && docker run -p 8788:8788 -e DECIDE_TOKEN -e REDIS_URL=redis://… sluice
FROM node:24-slim AS build
WORKDIR /sluice
COPY . .
RUN npm ci

FROM node:24-slim
WORKDIR /sluice
COPY --from=build /sluice/package.json ./
COPY --from=build /sluice/lib/command ./lib/command
USER node
EXPOSE 8788
HEALTHCHECK CMD ["node", "-e", "fetch('http://127.0.0.1:8788/_sluice/health').then(({ ok }) => process.exit(ok ? 0 : 1))"]
ENTRYPOINT ["node", "lib/command/cli.js", "serve", "--host", "0.0.0.0"]
