import { expect, test } from 'vitest'
import { loadConfig } from '../../src/config/load-config.ts'
import { hasPassed, viaName } from '../../src/gateway/via.ts'

const nameOf = (env: Readonly<Record<string, unknown>>) =>
  viaName(loadConfig({ UPSTREAM_URL: 'https://api.example.com', ...env }))

test('viaName() is the same for all isolates of a deployment, and another for another one', () => {
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
  const names = deployments.map(nameOf)
  expect(new Set(names).size).toBe(names.length)
  expect(deployments.map(nameOf)).toEqual(names)
  for (const name of names) expect(name).toMatch(/^sluice-[a-z0-9_-]{8}$/)
})

test.each([
  '1.1 sluice-0a1b2c3d',
  'HTTP/1.1 sluice-0a1b2c3d',
  '1.0 fred, 1.1 sluice-0a1b2c3d',
  '1.1 sluice-0a1b2c3d,2 barney',
  '1.1 Sluice-0A1B2C3D (a proxy, of sorts)',
  '1.1 fred (a, b),\t1.1  SLUICE-0a1b2c3d\t, 1.1 x',
  '2 sluice-ffffffff, 2 sluice-0a1b2c3d',
  // A comment that names it is believed, too.
  '1.1 fred (1.1 sluice-0a1b2c3d)',
])('hasPassed() finds its own name in "%s"', (via) => {
  expect(hasPassed(via, 'sluice-0a1b2c3d')).toBe(true)
})

test.each([null, '', '1.1 sluice', '1.1 sluice-ffffffff', '1.1 xsluice-0a1b2c3d', '1.1 sluice-0a1b2c3d.example'])(
  'hasPassed() does not find its own name in %j',
  (via) => {
    expect(hasPassed(via, 'sluice-0a1b2c3d')).toBe(false)
  },
)
