import { expect, test } from 'vitest'
import { createViaName } from '../../src/gateway/app/proxy.ts'
import { loadConfig } from '../../src/http/config/load-config.ts'

const createName = (env: Readonly<Record<string, unknown>>) =>
  createViaName(loadConfig({ UPSTREAM_URL: 'https://api.example.com', ...env }))

test('createViaName() is the same for all isolates of a deployment, and another for another one', () => {
  const service = { fetch }
  const deployments = [
    {},
    { KEY_PREFIX: 'other' },
    { UPSTREAM_URL: 'https://other.example.com' },
    { UPSTREAM_URL: 'https://api.example.com/v1' },
    { UPSTREAM: service },
    { UPSTREAM: service, KEY_PREFIX: 'other' },
    { IDENTITY_SECRET: 'at least sixteen' },
  ]
  const names = deployments.map(createName)
  expect(new Set(names).size).toBe(names.length)
  expect(deployments.map(createName)).toEqual(names)
  for (const name of names) expect(name).toMatch(/^sluice-[a-z0-9_-]{8}$/)
})
