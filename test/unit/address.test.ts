import fc from 'fast-check'
import { expect, test } from 'vitest'
import { callerAddress } from '../../src/request/identity/address.ts'

const addressOf = (address: string) => callerAddress({ headers: new Headers({ 'CF-Connecting-IP': address }) }, 64)

test.each([
  ['203.0.113.7', '203.0.113.7'],
  [' 203.0.113.7 ', '203.0.113.7'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
  ['2001:db8:1:2::', '2001:db8:1:2::/64'],
  ['2001:0DB8:0001:0002:0000:0000:0000:0001', '2001:db8:1:2::/64'],
  ['2001:db8:1:2::203.0.113.7', '2001:db8:1:2::/64'],
  ['2001:db8::1', '2001:db8:0:0::/64'],
  ['2001:db8:0:0:1:2:3:4', '2001:db8:0:0::/64'],
  ['::1', '0:0:0:0::/64'],
  ['::', '0:0:0:0::/64'],
  ['1::', '1:0:0:0::/64'],
  ['1:0:0:2::3', '1:0:0:2::/64'],
])('callerAddress() answers for %s: %s', (address, expected) => {
  expect(addressOf(address)).toBe(expected)
})

test.each([
  [16, '2001::/16'],
  [48, '2001:db8:1::/48'],
  [56, '2001:db8:1:ff00::/56'],
  [63, '2001:db8:1:fffe::/63'],
  [128, '2001:db8:1:ffff:3:4:5:6/128'],
])('callerAddress() keeps the first %d bits: %s', (prefix, expected) => {
  const headers = new Headers({ 'CF-Connecting-IP': '2001:db8:1:ffff:3:4:5:6' })
  expect(callerAddress({ headers }, prefix)).toBe(expected)
})

test.each(['::ffff:203.0.113.7', '::FFFF:cb00:7107', '0:0:0:0:0:ffff:203.0.113.7', '::ffff:cb00:7107'])(
  'callerAddress() takes the IPv4-mapped %s for the IPv4 caller that it is',
  (address) => {
    expect(addressOf(address)).toBe(addressOf('203.0.113.7'))
  },
)

test.each(['fe80::1%eth0', '1:2:3', '::g', '2001:db8::1::2', ':', '[::1]', 'x', '1.2.3', '1.2.3.4, 1.2.3.5'])(
  'callerAddress() takes what is no address for none: %s',
  (address) => {
    expect(addressOf(address)).toBe(addressOf(''))
  },
)

test('callerAddress() believes no field but CF-Connecting-IP', () => {
  const forged = { 'X-Forwarded-For': '198.51.100.1', 'X-Real-IP': '198.51.100.2', Forwarded: 'for=198.51.100.3' }
  const nobody = callerAddress({ headers: new Headers() }, 64)
  expect(callerAddress({ headers: new Headers(forged) }, 64)).toBe(nobody)
  expect(callerAddress({ headers: new Headers({ 'CF-Connecting-IP': '' }) }, 64)).toBe(nobody)
  expect(callerAddress({ headers: new Headers({ ...forged, 'CF-Connecting-IP': '203.0.113.7' }) }, 64)).toBe(
    '203.0.113.7',
  )
})

test('callerAddress() answers the same for all of a /64, however spelt, and for no other', () => {
  const group = fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 0xffff }))
  const network = fc.tuple(fc.integer({ min: 0x2000, max: 0x3fff }), group, group, group)
  const host = fc.tuple(group, group, group, group)
  const hex = (groups: readonly number[]) => groups.map((n) => n.toString(16)).join(':')
  /** In full, padded, in capitals, or with the first run of zeros left out. */
  const spelling = fc.constantFrom<(groups: readonly number[]) => string>(
    hex,
    (groups) => groups.map((n) => n.toString(16).padStart(4, '0')).join(':'),
    (groups) => hex(groups).toUpperCase(),
    (groups) => {
      const start = groups.findIndex((n, i) => n === 0 && groups[i + 1] === 0)
      const length = groups.slice(start).findIndex((n) => n !== 0)
      if (start === -1) return hex(groups)
      return `${hex(groups.slice(0, start))}::${length === -1 ? '' : hex(groups.slice(start + length))}`
    },
  )
  fc.assert(
    fc.property(network, network, host, host, spelling, spelling, (one, two, a, b, spellA, spellB) => {
      expect(addressOf(spellA([...one, ...a]))).toBe(addressOf(spellB([...one, ...b])))
      const isSame = one.every((group, i) => group === two[i])
      expect(addressOf(spellA([...one, ...a])) === addressOf(spellB([...two, ...b]))).toBe(isSame)
    }),
  )
})
