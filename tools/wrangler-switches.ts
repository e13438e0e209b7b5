/**
 * Wrangler as a library: it calls no servers, writes no log files, adds no pages of its own to the Worker's, and reads
 * variables from no file except `.dev.vars`. It looks at some of these while it loads, so import this module before it.
 */
Object.assign(process.env, {
  CLOUDFLARE_CF_FETCH_ENABLED: 'false',
  CLOUDFLARE_LOAD_DEV_VARS_FROM_DOT_ENV: 'false',
  WRANGLER_SEND_METRICS: 'false',
  WRANGLER_WRITE_LOGS: 'false',
  X_LOCAL_EXPLORER: 'false',
})
