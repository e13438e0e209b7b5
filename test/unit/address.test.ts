import { expect, test } from 'vitest'
import {
  formatCallerAddress,
  formatIpv6,
  readCallerAddress,
  readIpv6Groups,
} from '../../src/http/request/identity/address.ts'

const findAddress = (address: string) =>
  readCallerAddress({ headers: new Headers({ 'CF-Connecting-IP': address }) }, 64)

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
])('readCallerAddress() answers for %s: %s', (address, expected) => {
  expect(findAddress(address)).toBe(expected)
})

test.each([
  [16, '2001::/16'],
  [48, '2001:db8:1::/48'],
  [56, '2001:db8:1:ff00::/56'],
  [63, '2001:db8:1:fffe::/63'],
  [128, '2001:db8:1:ffff:3:4:5:6/128'],
])('readCallerAddress() keeps the first %d bits: %s', (prefix, expected) => {
  const headers = new Headers({ 'CF-Connecting-IP': '2001:db8:1:ffff:3:4:5:6' })
  expect(readCallerAddress({ headers }, prefix)).toBe(expected)
})

test.each(['fe80::1%eth0', '1:2:3', '::g', '2001:db8::1::2', ':', '[::1]', 'x', '1.2.3', '1.2.3.4, 1.2.3.5'])(
  'readCallerAddress() takes what is no address for none: %s',
  (address) => {
    expect(findAddress(address)).toBe(findAddress(''))
  },
)

test('readCallerAddress() believes no field but CF-Connecting-IP', () => {
  const forged = { 'X-Forwarded-For': '198.51.100.1', 'X-Real-IP': '198.51.100.2', Forwarded: 'for=198.51.100.3' }
  const nobody = readCallerAddress({ headers: new Headers() }, 64)
  expect(readCallerAddress({ headers: new Headers(forged) }, 64)).toBe(nobody)
  expect(readCallerAddress({ headers: new Headers({ 'CF-Connecting-IP': '' }) }, 64)).toBe(nobody)
  expect(readCallerAddress({ headers: new Headers({ ...forged, 'CF-Connecting-IP': '203.0.113.7' }) }, 64)).toBe(
    '203.0.113.7',
  )
})

test.each([
  ['::ffff:203.0.113.7', '203.0.113.7'],
  ['::ffff:cb00:7107', '203.0.113.7'],
  ['::203.0.113.7', '0:0:0:0::/64'],
  ['1::ffff:203.0.113.7', '1:0:0:0::/64'],
  ['0:0:0:0:1:ffff:cb00:7107', '0:0:0:0::/64'],
  ['::ffff:0:203.0.113.7', '0:0:0:0::/64'],
  ['1.2.3.4.5', 'unknown'],
  ['x1.2.3.4', 'unknown'],
  ['1.2.3.4x', 'unknown'],
  ['1234.2.3.4', 'unknown'],
])('formatCallerAddress() knows the IPv4 address in an IPv6 one: %s is %s', (address, expected) => {
  expect(formatCallerAddress(address, 64)).toBe(expected)
})

test('readIpv6Groups() reads eight groups, or two of an IPv4 address', () => {
  expect(readIpv6Groups('1:2::8')).toEqual([1, 2, 0, 0, 0, 0, 0, 8])
  expect(readIpv6Groups('::ffff:1.2.3.4')).toEqual([0x102, 0x304])
  expect(readIpv6Groups('0:1::ffff:1.2.3.4')).toEqual([0, 1, 0, 0, 0, 0xffff, 0x102, 0x304])
  expect(['x', '1', '::1]', 'x::1', '::1x', 'x@[::1'].map(readIpv6Groups)).toEqual(Array(6).fill(undefined))
  expect(['::A', '1:0:0:2:0:0:0:3'].map(formatIpv6)).toEqual(['::a', '1:0:0:2::3'])
})
