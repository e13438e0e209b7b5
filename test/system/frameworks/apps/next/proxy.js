import { NextResponse } from 'next/server'
import { limit } from 'sluice/fetch'

export const proxy = limit(() => NextResponse.next(), { limits: '10/1h', log() {} })

export const config = { matcher: '/limited' }
