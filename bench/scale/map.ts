/** Where places are, and how far they are from each other. */

export interface Metro {
  readonly name: string
  readonly latitude: number
  readonly longitude: number
  /** Percent of all requests. Assumed for an API that is used all over the world. */
  readonly share: number
}

/** A point of presence. */
export interface Place extends Pick<Metro, 'latitude' | 'longitude'> {
  readonly metro: Metro
}

const PLACES_IN_METRO = 10
/** Degrees by which a place lies off the middle of its metro at most: its surroundings belong to it. */
const SCATTER = 2
const EARTH_KM = 6_371

/**
 * From one place to another in the same metro and back, and what each 1,000 km add. Fitted to the round trips between
 * regions that Microsoft's client of Cosmos DB for .NET carries (`RegionProximityUtil`, a copy of 2026), such as 80 ms
 * from Paris to Virginia and 238 ms to Sydney; `test/system/simulation/scale.test.ts` compares.
 */
const LEAST_MS = 2
const MS_PER_1000_KM = 15

const defineMetro = (name: string, latitude: number, longitude: number, share: number): Metro => {
  return { name, latitude, longitude, share }
}

export const METROS: readonly Metro[] = [
  defineMetro('Washington', 39.0, -77.5, 8),
  defineMetro('New York', 40.7, -74.0, 6),
  defineMetro('Atlanta', 33.7, -84.4, 3),
  defineMetro('Chicago', 41.9, -87.6, 4),
  defineMetro('Dallas', 32.8, -96.8, 4),
  defineMetro('Seattle', 47.6, -122.3, 3),
  defineMetro('San Jose', 37.3, -121.9, 4),
  defineMetro('Los Angeles', 34.1, -118.2, 4),
  defineMetro('Toronto', 43.7, -79.4, 2),
  defineMetro('Mexico City', 19.4, -99.1, 2),
  defineMetro('Bogotá', 4.7, -74.1, 1),
  defineMetro('São Paulo', -23.6, -46.6, 4),
  defineMetro('London', 51.5, -0.1, 6),
  defineMetro('Paris', 48.9, 2.4, 4),
  defineMetro('Frankfurt', 50.1, 8.7, 7),
  defineMetro('Madrid', 40.4, -3.7, 2),
  defineMetro('Milan', 45.5, 9.2, 2),
  defineMetro('Stockholm', 59.3, 18.1, 2),
  defineMetro('Warsaw', 52.2, 21.0, 2),
  defineMetro('Istanbul', 41.0, 29.0, 2),
  defineMetro('Johannesburg', -26.2, 28.0, 1),
  defineMetro('Lagos', 6.5, 3.4, 1),
  defineMetro('Dubai', 25.2, 55.3, 2),
  defineMetro('Mumbai', 19.1, 72.9, 5),
  defineMetro('Singapore', 1.4, 103.8, 5),
  defineMetro('Jakarta', -6.2, 106.8, 2),
  defineMetro('Hong Kong', 22.3, 114.2, 3),
  defineMetro('Seoul', 37.6, 127.0, 3),
  defineMetro('Tokyo', 35.7, 139.7, 5),
  defineMetro('Sydney', -33.9, 151.2, 1),
]

/**
 * 300 places, ten for each metro.
 * @param oneIn only one of so many, alike in each metro: a divisor of ten
 */
export function createPlaces(oneIn: number, random: () => number): Place[] {
  const all = METROS.flatMap((metro) =>
    Array.from({ length: PLACES_IN_METRO }, (): Place => {
      const latitude = metro.latitude + (2 * random() - 1) * SCATTER
      return { metro, latitude, longitude: metro.longitude + (2 * random() - 1) * SCATTER }
    }),
  )
  return all.filter((_, index) => index % oneIn === 0)
}

/** Computes the time from one to the other and back. */
export function computeRoundTripMs(a: Pick<Place, 'latitude' | 'longitude'>, b: typeof a): number {
  const radians = (degrees: number) => (degrees * Math.PI) / 180
  const [lat1, lat2] = [radians(a.latitude), radians(b.latitude)]
  const half = (angle: number) => Math.sin(angle / 2) ** 2
  const chord = half(lat2 - lat1) + Math.cos(lat1) * Math.cos(lat2) * half(radians(b.longitude - a.longitude))
  const km = 2 * EARTH_KM * Math.asin(Math.sqrt(chord))
  return LEAST_MS + (km / 1_000) * MS_PER_1000_KM
}

export function findMetro(name: string): Metro {
  const found = METROS.find((metro) => metro.name === name)
  if (!found) throw new Error(`no metro ${name}`)
  return found
}
