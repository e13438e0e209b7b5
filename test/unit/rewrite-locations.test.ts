import { expect, test } from 'vitest'
import { rewriteLocation } from '../../src/gateway/app/rewrite-locations.ts'

const OWN = 'https://api.example.com'

test.each([
  // The API's own host
  ['https://origin.internal', 'https://origin.internal/x?y=1#z', `${OWN}/x?y=1#z`],
  ['https://origin.internal', 'https://origin.internal', `${OWN}/`],
  ['https://origin.internal', 'HTTPS://ORIGIN.internal:443/x', `${OWN}/x`],
  ['https://origin.internal', 'http://origin.internal/x', `${OWN}/x`],
  ['https://origin.internal', 'https://user:password@origin.internal/x', `${OWN}/x`],
  ['https://origin.internal', '//origin.internal/x', `${OWN}/x`],
  ['https://origin.internal', '\\\\origin.internal\\x', `${OWN}/x`],
  ['https://origin.internal', 'https://origin.internal//evil.example/x', `${OWN}//evil.example/x`],
  ['http://10.0.0.1:8080', 'http://10.0.0.1:8080/x', `${OWN}/x`],
  // Below a base path
  ['https://origin.internal/v1', 'https://origin.internal/v1/x', `${OWN}/x`],
  ['https://origin.internal/v1', 'https://origin.internal/v1', `${OWN}/`],
  ['https://origin.internal/v1', 'https://origin.internal/v1?a', `${OWN}/?a`],
  ['https://origin.internal/v1', 'https://origin.internal/a/../v1/x', `${OWN}/x`],
  ['https://origin.internal/v1', '/v1/x', `${OWN}/x`],
  ['https://origin.internal/v1', '/v1//evil.example', `${OWN}//evil.example`],
  ['https://origin.internal/v1', 'https://origin.internal/v12/x', undefined],
  ['https://origin.internal/v1', 'https://origin.internal/v1/../x', undefined],
  ['https://origin.internal/v1', '/other', undefined],
  // What means the same to the client
  ['https://origin.internal', '/x', undefined],
  ['https://origin.internal/v1', 'x', undefined],
  ['https://origin.internal/v1', '../x', undefined],
  ['https://origin.internal/v1', '?page=2', undefined],
  ['https://origin.internal/v1', '', undefined],
  // Others
  ['https://origin.internal', 'https://other.example/x', undefined],
  ['https://origin.internal', 'https://origin.internal.evil.example/x', undefined],
  ['https://origin.internal', 'https://origin.internal:8443/x', undefined],
  ['https://origin.internal', '//other.example/x', undefined],
  ['https://origin.internal', 'myapp://origin.internal/x', undefined],
  ['https://origin.internal', 'mailto:a@origin.internal', undefined],
  ['https://origin.internal', 'https://[', undefined],
])('behind %s, the location %s becomes %s', (upstreamUrl, location, expected) => {
  expect(rewriteLocation(location, upstreamUrl, OWN, '/a/b?c')).toBe(expected)
})
